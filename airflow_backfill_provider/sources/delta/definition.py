"""The fields of ``upstream`` for a Delta table with change data feed."""

from __future__ import annotations

from typing import ClassVar

from airflow_backfill_provider.sources.shared.catalog_table import CatalogTableUpstream


class DeltaUpstream(CatalogTableUpstream):
    """
    A Delta table with change data feed.

    :param table: the table's full name in a catalog, ``catalog.schema.table``. Spark looks up its location when the
        job is created.
    :param path: the table's location; it may be left out if ``table`` is given.
    """

    kind: ClassVar[str] = "delta"
    has_versions: ClassVar[bool] = True

    @property
    def keeps_all_columns(self) -> bool:
        """The table and its change data feed have whole rows."""
        return True
