"""How a job's definition differs from the one that its view has, and so what has to be written to change it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Self

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
    COLUMNS_CHANGED = "columns_changed"
    EVERYTHING = "everything"

    @property
    def needs_rebuild(self) -> bool:
        """Whether only a rebuild makes the view that of the new definition."""
        return self is ChangeKind.EVERYTHING

    @property
    def changes_columns(self) -> bool:
        """Whether the view gets other columns, as the text shows; of other classes, only Spark can tell."""
        return self in {ChangeKind.COLUMNS_DROPPED, ChangeKind.COLUMNS_ADDED, ChangeKind.COLUMNS_CHANGED}

    @property
    def keeps_rows(self) -> bool:
        """Whether the view has the right rows already."""
        return self in {ChangeKind.NOTHING, ChangeKind.TECHNIQUE}


class ColumnsChange(Frozen):
    """
    The difference of a view's columns from those that another query gives, hidden ones included.

    :param added: the columns that come.
    :param dropped: the columns that go.
    :param retyped: the columns that get another type → both types, in words.
    :param reordered: whether the others are in another order.
    """

    added: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    retyped: Mapping[str, str] = {}
    reordered: bool = False

    @classmethod
    def between(cls, before: Mapping[str, str], after: Mapping[str, str]) -> Self | None:
        """
        Return how columns differ; ``None`` if they are the same.

        :param before: the view's columns with their types, as Delta writes them; nested types as JSON.
        :param after: those of the query.
        """
        kept = [name for name in after if name in before]
        change = cls(
            added=tuple(name for name in after if name not in before),
            dropped=tuple(name for name in before if name not in after),
            retyped={
                name: f"{_shown(before[name])} to {_shown(after[name])}" for name in kept if before[name] != after[name]
            },
            reordered=kept != [name for name in before if name in after],
        )
        return None if change == cls() else change

    def __str__(self) -> str:
        """Return the difference in words."""
        retyped = [f"{name} from {types}" for name, types in self.retyped.items()]
        parts = [
            f"{what}: {', '.join(names)}"
            for what, names in (("added", self.added), ("dropped", self.dropped), ("another type", retyped))
            if names
        ]
        return "; ".join([*parts, *(["another order"] if self.reordered else [])])


def _shown(kind: str) -> str:
    """Return a type in words; of a nested one, only its kind."""
    return str(json.loads(kind)["type"]) if kind.startswith("{") else kind


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
