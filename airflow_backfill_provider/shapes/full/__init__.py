"""
``full``: any deterministic query over the upstreams; the whole view is computed whenever rows changed.

It is the shape of all jobs with ``refresh: full``. The whole view is one unit, so nothing has to be known of how a
change reaches it, and no upstream need record its changes. No job gets it unless it asks for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.job.sql import RELATION
from airflow_backfill_provider.core.job.visibility import Visibility
from airflow_backfill_provider.core.refresh import Refresh
from airflow_backfill_provider.shapes.base import Shape, ViewWriter, WriterContext

if TYPE_CHECKING:
    from airflow_backfill_provider.core.job.definition import BackfillJob
    from airflow_backfill_provider.shapes.full.query import FullQuery
    from airflow_backfill_provider.shapes.full.several_query import FullQueryOverSeveral


class Full(Shape):
    """One unit: all rows of the view."""

    name: ClassVar[str] = "full"
    replaces_columns: ClassVar[bool] = True
    strategies: ClassVar[frozenset[str] | None] = frozenset({"snapshot"})
    only_visibility: ClassVar[Visibility | None] = Visibility.ON_FINISH
    single_part: ClassVar[bool] = True
    whole_history: ClassVar[bool] = True
    refreshes: ClassVar[frozenset[Refresh]] = frozenset({Refresh.FULL})
    needs_changes: ClassVar[bool] = False
    takes_upstreams: ClassVar[bool] = True

    def query(self, text: str) -> FullQuery | FullQueryOverSeveral:
        """Parse a query: over ``upstream``, or over several upstreams of other names."""
        from airflow_backfill_provider.shapes.full.query import check_full_query
        from airflow_backfill_provider.shapes.full.several_query import check_full_query_over_several, reads_several

        return check_full_query_over_several(text) if reads_several(text) else check_full_query(text)

    def require_job(self, job: BackfillJob) -> None:
        """Refuse results that depend on the order of rows, and a part of the upstream's vnodes."""
        query = self.query(job.query)
        if query.relations != (RELATION,) and not job.upstreams:
            raise InvalidJobError(
                f"upstream: the query reads {', '.join(query.relations)}, so name these tables under upstreams"
            )
        query.require_orders([column.column for column in job.upstream.key])
        if job.restrict_to.vnodes:
            raise InvalidJobError(
                "restrict_to.vnodes: a row of the view may be computed from rows of several vnodes, and would be "
                "computed from some of them; restrict the job by keys, or by a WHERE in its query"
            )

    def writer(self, context: WriterContext) -> ViewWriter:
        """Return the writer that computes the whole view."""
        from airflow_backfill_provider.shapes.full.writer import FullWriter

        return FullWriter(context)
