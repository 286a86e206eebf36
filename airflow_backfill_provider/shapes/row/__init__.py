"""
``row``: each row of the upstream gives at most one row of the view, independently of the other rows.

So a change is applied by its key alone. The streaming executors that this package ports have this shape: they project
and filter, and leave the rest of a query to other executors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from airflow_backfill_provider.shapes.base import Shape, ViewWriter, WriterContext

if TYPE_CHECKING:
    from airflow_backfill_provider.core.job.definition import BackfillJob
    from airflow_backfill_provider.shapes.row.query import RowQuery


class Row(Shape):
    """At most one row of the view for each row of the upstream."""

    name: ClassVar[str] = "row"
    replaces_columns: ClassVar[bool] = True
    has_keys: ClassVar[bool] = True
    keeps_former_rows: ClassVar[bool] = True
    former_rows_by_version: ClassVar[bool] = True

    def query(self, text: str) -> RowQuery:
        """Parse a row-level query."""
        # The SQL parser is slow to load, and a process that defines no job does not need it.
        from airflow_backfill_provider.shapes.row.query import check_query

        return check_query(text)

    def require_job(self, job: BackfillJob) -> None:
        """Refuse a query that would see the versions of changes, if the view keeps former rows."""
        if job.keep.keeps_former_rows:
            self.query(job.query).require_named_columns(job.keep)

    def writer(self, context: WriterContext) -> ViewWriter:
        """Return the writer that merges changes by their key, and appends chunks."""
        from airflow_backfill_provider.shapes.row.former_rows import FormerRowsWriter
        from airflow_backfill_provider.shapes.row.writer import RowWriter

        return FormerRowsWriter(context) if context.job.keep.keeps_former_rows else RowWriter(context)
