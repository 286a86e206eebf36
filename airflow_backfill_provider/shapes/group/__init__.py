"""
``group``: the rows of the view are computed from groups of rows of the upstream, each group by itself.

Aggregates, windows, top-N, the latest row of each key, and DISTINCT. A change touches the groups of its old and of its
new values, and these are written anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, cast

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.job.visibility import Visibility
from airflow_backfill_provider.core.refresh import INCREMENTAL_OR_AUTO, Refresh
from airflow_backfill_provider.shapes.base import Shape, ViewWriter, WriterContext

if TYPE_CHECKING:
    from airflow_backfill_provider.core.job.definition import BackfillJob
    from airflow_backfill_provider.shapes.group.query import GroupQuery


class Group(Shape):
    """Units of several rows of the upstream."""

    name: ClassVar[str] = "group"
    replaces_columns: ClassVar[bool] = True
    keeps_former_rows: ClassVar[bool] = True
    strategies: ClassVar[frozenset[str] | None] = frozenset({"snapshot", "arrangement", "source"})
    only_visibility: ClassVar[Visibility | None] = Visibility.ON_FINISH
    single_part: ClassVar[bool] = True
    whole_history: ClassVar[bool] = True
    adds_rows: ClassVar[bool] = True
    pins_columns: ClassVar[bool] = True
    refreshes: ClassVar[frozenset[Refresh]] = INCREMENTAL_OR_AUTO

    def claims(self, text: str) -> bool:
        """Return whether a query has a word of groups or windows, or calls an aggregate."""
        from airflow_backfill_provider.shapes.group.claims import looks_grouped

        return looks_grouped(text)

    def query(self, text: str) -> GroupQuery:
        """Parse a query of groups."""
        from airflow_backfill_provider.shapes.group.query import check_group_query

        return check_group_query(text)

    def require_job(self, job: BackfillJob) -> None:
        """
        Refuse results that depend on the order of rows, a part of the upstream's vnodes, and one unit by units.

        Of rows that are only appended, refuse what would have to read them again.
        """
        from airflow_backfill_provider.shapes.group.added_rows import require_added
        from airflow_backfill_provider.shapes.group.refusals import refuse_vnodes

        query = self.query(job.query)
        query.require_orders([column.column for column in job.upstream.key])
        if job.strategy == "arrangement" and not query.has_row_units:
            raise InvalidJobError(
                "strategy: arrangement reads history group by group, and the query aggregates all rows as one; use "
                "strategy snapshot, or auto"
            )
        refuse_vnodes(job)
        if job.upstream.appends_only:
            require_added(query, job)

    def writer(self, context: WriterContext) -> ViewWriter:
        """Return the writer of the technique that the job's settings pin."""
        from airflow_backfill_provider.shapes.group.upstream_rows import UpstreamInput
        from airflow_backfill_provider.shapes.group.writers import writer_of

        return writer_of(UpstreamInput(context, cast("GroupQuery", context.query.query)))
