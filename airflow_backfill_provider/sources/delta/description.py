"""One version of a Delta table that is a job's upstream."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_backfill_provider.core.epoch.settings import ResolvedUpstream
from airflow_backfill_provider.core.errors import ChangeDataFeedDisabledError, UpstreamError
from airflow_backfill_provider.core.job.sql import quote
from airflow_backfill_provider.core.scan.columns import CHANGE_FEED_COLUMNS
from airflow_backfill_provider.lake.log.schemas import TableSchema
from airflow_backfill_provider.lake.tables.view_feed import CHANGE_DATA_FEED
from airflow_backfill_provider.sources.description import UpstreamDescription


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaDescription(UpstreamDescription):
    """
    One version of a Delta table.

    :param change_data_feed: whether the table records its changes as of this version.
    """

    change_data_feed: bool

    def differences_from(self, upstream: ResolvedUpstream) -> list[str]:
        """Return how the used columns differ from those at the job's creation; nested columns may have new fields."""
        nullable = [column.name for column in upstream.columns if column.required and column.name not in self.required]
        return [
            *TableSchema(self.types, self.physical_names).differences_from(upstream),
            *(f"column {name!r} may be null now, and never was" for name in nullable if name in self.types),
        ]

    @property
    def way_to_follow(self) -> str:
        """What a user can do if used columns have changed: the view follows, if it is finished."""
        return "adapt the job's query, and run airflow-backfill change, or rebuild the job"

    @property
    def without_changes(self) -> str:
        """That the table has no change data feed, with the statement that switches it on; empty if it has one."""
        if self.change_data_feed:
            return ""
        return (
            f"{self.location} has no change data feed as of version {self.offset}; switch it on with: "
            f"ALTER TABLE delta.{quote(self.location)} SET TBLPROPERTIES ({CHANGE_DATA_FEED} = true)"
        )

    def require_changes(self) -> None:
        """
        Refuse a table without change data feed, or with changes that cannot be read.

        :raises ChangeDataFeedDisabledError: with the statement that switches the feed on.
        :raises UpstreamError: with a column that has the name of one of the feed's columns.
        """
        if self.without_changes:
            raise ChangeDataFeedDisabledError(self.without_changes)
        for name in self.types:
            if name.lower() in CHANGE_FEED_COLUMNS:
                raise UpstreamError(
                    f"{self.location} has a column {name}, which is also a column of Delta's change data feed, so the "
                    "table's changes cannot be read; rename or remove the column"
                )
