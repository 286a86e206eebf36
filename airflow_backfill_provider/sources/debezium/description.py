"""One version of a table of Debezium's events, described by the rows that the events are about."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from airflow_backfill_provider.core.epoch.settings import ResolvedUpstream
from airflow_backfill_provider.core.errors import InvalidJobError, UpstreamError
from airflow_backfill_provider.sources.debezium.layout import EventLayout
from airflow_backfill_provider.sources.debezium.snapshot_table import SnapshotTable
from airflow_backfill_provider.sources.delta.description import DeltaDescription


@dataclass(frozen=True, slots=True, kw_only=True)
class DebeziumDescription(DeltaDescription):
    """
    One version of a table of events. Its columns are those of the database's table.

    :param layout: where the events have what.
    :param key: the key columns.
    :param snapshot: the table whose present rows are read; ``None`` if rows come from the events.
    """

    layout: EventLayout
    key: tuple[str, ...]
    snapshot: SnapshotTable | None

    def pinned_for(self, used: Collection[str]) -> Mapping[str, str]:
        """Return what each used column of the database's table is, if its present rows are read."""
        return {} if self.snapshot is None else self.snapshot.pinned_for(used)

    def differences_from(self, upstream: ResolvedUpstream) -> list[str]:
        """Return how the used columns differ from those at the job's creation, in the events and in the database."""
        found = DeltaDescription.differences_from(self, upstream)
        return found if found or self.snapshot is None else self.snapshot.problems(upstream.pinned)

    def require_columns(self, used: Collection[str]) -> None:
        """
        Refuse columns that the database's rows and the events do not have alike.

        :raises InvalidJobError: with the columns.
        :raises UpstreamError: if the events lack what reading present rows needs.
        """
        if self.layout.old is None and self.layout.new:
            missing = "the events have no column before, so deletes have no key; land it, too"
            raise UpstreamError(f"{self.location}: {missing}")
        if self.snapshot is None:
            return
        if self.layout.transaction is None:
            raise UpstreamError(
                f"{self.location}: the events have no transaction id (source.txId, or the column __txId of flattened "
                "events), without which it is not known which changes the rows of the database already have; land it, "
                "or leave out upstream.debezium.snapshot if the events begin with a snapshot"
            )
        self.snapshot.require_key(self.key, self.types)
        if problems := self.snapshot.differences(used, self.types):
            raise InvalidJobError(
                f"query: {self.snapshot.location} and the events of {self.location} do not have the same values in "
                f"{'; '.join(problems)}; leave these columns out, or leave out upstream.debezium.snapshot if the "
                "events begin with a snapshot"
            )
