"""An upstream as of one offset: its identity and its columns."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from airflow_backfill_provider.core.errors import InvalidJobError, UpstreamReplacedError, UpstreamSchemaChangedError
from airflow_backfill_provider.core.job.upstream import KeyColumn
from airflow_backfill_provider.core.job.upstream_view import UpstreamView
from airflow_backfill_provider.core.scan.keys import KeyField, KeyOrder
from airflow_backfill_provider.core.scan.offset import Offset

if TYPE_CHECKING:
    from airflow_backfill_provider.core.epoch.settings import ResolvedUpstream


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamDescription:
    """
    An upstream as of one offset.

    :param location: the upstream's location, for messages.
    :param offset: the offset.
    :param table_id: the upstream's id; another upstream at the same location has another id. A fixed text if the
        upstream has no id; then a replacement is found only by :meth:`Source.point` and
        :meth:`Source.require_same_history`.
    :param types: column → Spark's JSON name of its type: ``long``, ``string``, ``decimal(20,2)``; nested types as JSON.
    :param physical_names: column → its name in storage, where that differs.
    :param view: the view and its job if the upstream is another job's materialized view; ``None`` if it is none.
    :param required: the columns that are never null, as far as the upstream says so.
    """

    location: str
    offset: Offset
    table_id: str
    types: Mapping[str, str]
    physical_names: Mapping[str, str] = field(default_factory=dict)
    view: UpstreamView | None = None
    required: Collection[str] = frozenset()

    @property
    def pinned(self) -> Mapping[str, str]:
        """What a job pins at its creation to read the same rows for ever; by default nothing."""
        return {}

    def pinned_for(self, used: Collection[str]) -> Mapping[str, str]:
        """
        Return :attr:`pinned`, and what a job pins about the columns that it uses; by default nothing.

        :param used: the columns that the job uses.
        """
        del used
        return self.pinned

    def key_order(self, key: Iterable[KeyColumn]) -> KeyOrder:
        """Return the order of key columns, with their types as of this offset."""
        return KeyOrder(
            tuple(
                KeyField(name=column.column, type=self.types[column.column], descending=column.descending)
                for column in key
            )
        )

    def require_usable(self) -> None:
        """
        Refuse an upstream that no job can read.

        :raises UpstreamError: with what to do.
        """

    @property
    def without_changes(self) -> str:
        """Why it records no changes, and how it would; empty, the default, if it records them."""
        return ""

    def require_changes(self) -> None:
        """
        Refuse an upstream whose changes cannot be read; a job that computes its view whole does not need them.

        :raises UpstreamError: with what to do.
        """

    def require_columns(self, used: Collection[str]) -> None:
        """
        Refuse columns that the source cannot read as they are.

        :param used: the columns that a job uses.
        :raises InvalidJobError: with the columns.
        """

    def require_distinct(self, used: Iterable[str]) -> None:
        """
        Refuse a used column if there is another one whose name differs only in case.

        :raises InvalidJobError: with both.
        """
        for name in sorted(used):
            if other := self._alike(name):
                raise InvalidJobError(
                    f"{self.location} has the columns {name} and {other}, and Spark ignores case, so it cannot "
                    "tell them apart; rename one of them, or leave both out of the query and the key"
                )

    def _alike(self, name: str) -> str | None:
        """Return another column whose name differs only in case."""
        return next((other for other in self.types if other != name and other.lower() == name.lower()), None)

    def require_as_created(self, upstream: ResolvedUpstream) -> None:
        """
        Refuse an upstream that is not the one at the job's creation.

        Also refuse a used column that is gone or has another type.

        :raises UpstreamReplacedError: if the upstream's id differs.
        :raises UpstreamSchemaChangedError: with the columns.
        :raises UpstreamError: as :meth:`require_usable`.
        """
        self.require_same_columns(upstream)
        self.require_usable()

    @property
    def way_to_follow(self) -> str:
        """What a user can do if used columns have changed."""
        return "adapt the job's query and rebuild it"

    def require_same_columns(self, upstream: ResolvedUpstream) -> None:
        """
        Refuse another upstream than at the job's creation, and a used column that is gone or has another type.

        :raises UpstreamReplacedError: if the upstream's id differs.
        :raises UpstreamSchemaChangedError: with the columns.
        """
        self.require_same_table(upstream)
        problems = self.differences_from(upstream)
        if problems:
            raise UpstreamSchemaChangedError(
                f"the schema of {self.location} has changed since the job was created, as of version {self.offset}: "
                f"{'; '.join(problems)}; {self.way_to_follow}"
            )

    def differences_from(self, upstream: ResolvedUpstream) -> list[str]:
        """Return how the used columns differ from those at the job's creation."""
        found = []
        for column in upstream.columns:
            if column.name not in self.types:
                found.append(f"column {column.name} is gone")
            elif self.types[column.name] != column.type:
                found.append(f"column {column.name} was {column.type} and is {self.types[column.name]}")
            elif other := self._alike(column.name):
                found.append(f"there is a column {other} beside {column.name}, and Spark ignores case")
        return found

    def require_same_table(self, upstream: ResolvedUpstream) -> None:
        """
        Refuse an upstream that is not the one that the job was created on.

        :raises UpstreamReplacedError: if the upstream's id differs.
        """
        if other := other_table(self.location, self.table_id, upstream.table_id, self.view):
            raise UpstreamReplacedError(f"{other}; rebuild the job to backfill from the new table")


def other_table(location: str, found: str, created_on: str, view: UpstreamView | None = None) -> str:
    """
    Return a message if an upstream is not the one that the job was created on; otherwise an empty text.

    :param view: the view and its job if the upstream is another job's materialized view.
    """
    if found == created_on:
        return ""
    why = f", because job {view.job} rebuilt its view, and this job is downstream of it" if view else ""
    return f"{location} holds table {found}, but the job was created on table {created_on}{why}"
