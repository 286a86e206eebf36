"""
``row``: each row of the upstream gives at most one row of the view, by itself.

So a change is applied by its key alone. It is the shape of the executors that this package ports: they project and
filter, and leave the rest of a query to other executors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from airflow_backfill_provider.shapes.base import Shape, ViewWriter, WriterContext

if TYPE_CHECKING:
    from airflow_backfill_provider.shapes.row.query import RowQuery


class Row(Shape):
    """A row of the view for a row of the upstream."""

    name: ClassVar[str] = "row"

    def query(self, text: str) -> RowQuery:
        """Read a row-level query."""
        # A parser of SQL takes longer to load than all the rest, and a process that defines no job needs none.
        from airflow_backfill_provider.shapes.row.query import check_query

        return check_query(text)

    def writer(self, context: WriterContext) -> ViewWriter:
        """Return what merges changes by their key, and appends chunks."""
        from airflow_backfill_provider.shapes.row.writer import RowWriter

        return RowWriter(context)
