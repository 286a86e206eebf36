"""What writers have in common if the history of their view may be that of several upstreams."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from airflow_backfill_provider.shapes.base import ViewWriter

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

    from airflow_backfill_provider.core.epoch.barrier import Barrier
    from airflow_backfill_provider.core.scan.table_version import TableVersions
    from airflow_backfill_provider.lake.tables.view_identity import ViewIdentity


class LeadsWriter(ViewWriter):
    """Writes a job's view. The history of an only lead is that of several without the further ones."""

    def write_part(
        self, rows: DataFrame, part: int, identity: ViewIdentity, barrier: Barrier, *, since: TableVersions | None
    ) -> None:
        """Write a part of the chunk of an only lead."""
        self.write_part_of_leads(rows, {}, part, identity, barrier, since=since)

    @abstractmethod
    def write_part_of_leads(
        self,
        rows: DataFrame,
        further: Mapping[str, DataFrame],
        part: int,
        identity: ViewIdentity,
        barrier: Barrier,
        *,
        since: TableVersions | None,
    ) -> None:
        """Write a part of the chunk of one lead or several; see :class:`ViewWriter`."""
