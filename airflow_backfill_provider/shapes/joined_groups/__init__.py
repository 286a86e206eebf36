"""
``joined_groups``: the rows of the view are computed from groups of rows of a join or a union.

The first stage of such a query joins a lead with dimensions, as ``join`` does, or unites such branches, as ``union``
does. The second stage groups the rows, as ``group`` does with those of one upstream. A change of any table affects some
rows of some leads: what these gave as of the window's begin leaves groups, and what they give as of its end comes to
groups. UNION is such a query, too: each row that is there once or more often is a group.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, cast

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.job.visibility import Visibility
from airflow_backfill_provider.core.refresh import INCREMENTAL_OR_AUTO, Refresh
from airflow_backfill_provider.shapes.base import Shape, ViewWriter, WriterContext

if TYPE_CHECKING:
    from airflow_backfill_provider.core.job.definition import BackfillJob
    from airflow_backfill_provider.shapes.joined_groups.query import JoinedGroupQuery


class JoinedGroups(Shape):
    """Units of several rows of joins."""

    name: ClassVar[str] = "joined_groups"
    replaces_columns: ClassVar[bool] = True
    keeps_former_rows: ClassVar[bool] = True
    strategies: ClassVar[frozenset[str] | None] = frozenset({"snapshot", "arrangement"})
    only_visibility: ClassVar[Visibility | None] = Visibility.ON_FINISH
    single_part: ClassVar[bool] = True
    whole_history: ClassVar[bool] = True
    pins_columns: ClassVar[bool] = True
    takes_upstreams: ClassVar[bool] = True
    refreshes: ClassVar[frozenset[Refresh]] = INCREMENTAL_OR_AUTO

    def claims(self, text: str) -> bool:
        """Return whether a query joins or unites relations and has a word of groups or windows, or an aggregate."""
        from airflow_backfill_provider.shapes.group.claims import looks_grouped
        from airflow_backfill_provider.shapes.joined.claims import looks_joined

        return looks_joined(text) and looks_grouped(text)

    def query(self, text: str) -> JoinedGroupQuery:
        """Parse a query that groups the rows of a join or a union."""
        from airflow_backfill_provider.shapes.joined_groups.query import check_joined_group_query

        return check_joined_group_query(text)

    def require_job(self, job: BackfillJob) -> None:
        """Refuse tables without names, a lead that leads no branch, a part of a lead's rows, and rows without units."""
        from airflow_backfill_provider.shapes.group.refusals import refuse_vnodes
        from airflow_backfill_provider.shapes.joined.job_checks import require_branches, require_upstreams

        query = self.query(job.query)
        require_upstreams(job, query)
        if job.strategy == "arrangement" and not query.has_row_units:
            raise InvalidJobError(
                "strategy: arrangement reads history group by group, and joined rows only by the GROUP BY of a SELECT "
                "that joins the tables themselves; use strategy snapshot, or auto"
            )
        refuse_vnodes(job)
        require_branches(job, query)

    def writer(self, context: WriterContext) -> ViewWriter:
        """Return the writer of the technique that the job's settings pin."""
        from airflow_backfill_provider.shapes.group.writers import writer_of
        from airflow_backfill_provider.shapes.joined_groups.joined_input import JoinedInput

        return writer_of(JoinedInput(context, cast("JoinedGroupQuery", context.query.query)))
