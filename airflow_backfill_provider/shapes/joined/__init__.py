"""
``join``: the rows of the view are computed from rows of several upstreams.

A lead is joined with dimensions. A change of any upstream affects some rows of the lead, and what the query gives for
these is written anew. The shapes of unions and of groups over joins use what the package knows of these queries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from airflow_backfill_provider.core.job.visibility import Visibility
from airflow_backfill_provider.core.refresh import INCREMENTAL_OR_AUTO, Refresh
from airflow_backfill_provider.shapes.base import Shape, ViewWriter, WriterContext

if TYPE_CHECKING:
    from airflow_backfill_provider.core.job.definition import BackfillJob
    from airflow_backfill_provider.shapes.joined.join_query import JoinQuery


class Join(Shape):
    """All rows of the view that come from one row of the lead."""

    name: ClassVar[str] = "join"
    replaces_columns: ClassVar[bool] = True
    keeps_former_rows: ClassVar[bool] = True
    has_keys: ClassVar[bool] = True
    takes_upstreams: ClassVar[bool] = True
    refreshes: ClassVar[frozenset[Refresh]] = INCREMENTAL_OR_AUTO
    default_visibility: ClassVar[Visibility | None] = Visibility.ON_FINISH

    def claims(self, text: str) -> bool:
        """Return whether a query joins or unites relations, or asks whether rows of another one exist."""
        from airflow_backfill_provider.shapes.joined.claims import looks_joined

        return looks_joined(text)

    def query(self, text: str) -> JoinQuery:
        """Parse a query that joins relations."""
        from airflow_backfill_provider.shapes.joined.join_query import check_join_query

        return check_join_query(text)

    def require_job(self, job: BackfillJob) -> None:
        """Refuse a query that joins the only table with itself, unless the job gives it under ``upstreams``."""
        from airflow_backfill_provider.shapes.joined.job_checks import require_upstreams

        require_upstreams(job, self.query(job.query))

    def writer(self, context: WriterContext) -> ViewWriter:
        """Return the writer that replaces all rows of the affected leads."""
        from airflow_backfill_provider.shapes.joined.writer import JoinWriter

        return JoinWriter(context)
