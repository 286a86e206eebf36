"""The fields of ``upstream`` for a Delta table to which rows are only appended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from airflow_backfill_provider.sources.shared.catalog_table import CatalogTableUpstream
from airflow_backfill_provider.sources.shared.file_log.definition import FileLogUpstream


class AppendOnlyUpstream(FileLogUpstream, CatalogTableUpstream):
    """
    A Delta table to which rows are only appended. It stands in a job without the kind's name, like any Delta table.

    :param table: the table's full name in a catalog, ``catalog.schema.table``.
    :param path: the table's location; it may be left out if ``table`` is given.
    :param append_only: says that the table needs no change data feed.
    """

    kind: ClassVar[str] = "append_only"

    append_only: Literal[True] = True

    @classmethod
    def claims(cls, fields: Mapping[str, object]) -> bool:
        """Return whether the fields say that rows are only appended."""
        return "append_only" in fields

    @property
    def watched(self) -> str:
        """The table and the file log, because a poll looks at both."""
        return f"{self.location}, {self.file_log}"
