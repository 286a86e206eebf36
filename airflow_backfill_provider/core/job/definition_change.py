"""How a job's definition differs from the one that its view has, and so what has to be written to change it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from airflow_backfill_provider.core.frozen import Frozen


class ChangeKind(StrEnum):
    """The classes of changes, by what they cost."""

    NOTHING = "nothing"
    TECHNIQUE = "technique"
    FILTER = "filter"
    EXPRESSIONS = "expressions"
    COLUMNS_DROPPED = "columns_dropped"
    COLUMNS_ADDED = "columns_added"
    EVERYTHING = "everything"

    @property
    def needs_rebuild(self) -> bool:
        """Whether only a rebuild makes the view that of the new definition."""
        return self in {ChangeKind.COLUMNS_DROPPED, ChangeKind.COLUMNS_ADDED, ChangeKind.EVERYTHING}

    @property
    def keeps_rows(self) -> bool:
        """Whether the view has the right rows already."""
        return self in {ChangeKind.NOTHING, ChangeKind.TECHNIQUE}


class FilterChange(Frozen):
    """
    Two conditions of WHERE, in a query that is otherwise the same.

    :param relation: the name by which both know the upstream.
    :param before: the condition of the query that the view has, as SQL.
    :param after: the condition of the query that the view gets.
    :param types: the columns that the former query uses, with their types as Delta writes them; the conditions are
        computed of these and of the new query's columns.
    """

    relation: str
    before: str
    after: str
    types: Annotated[Mapping[str, str], Field(exclude_if=lambda types: not types)] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class DefinitionChange:
    """
    The difference of two definitions of one job.

    :param reason: what differs, in words.
    :param filters: the two conditions; only of :attr:`ChangeKind.FILTER`.
    """

    kind: ChangeKind
    reason: str
    filters: FilterChange | None = None
