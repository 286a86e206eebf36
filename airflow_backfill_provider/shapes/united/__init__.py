"""
``union``: the rows of the view are those of several branches, with UNION ALL between them.

Each branch has a lead of its own: a table, or a join that one table leads. Several branches may have the same one. A
change of any table affects some rows of some leads. What each branch of such a lead gives for them is written anew, and
all branches in one commit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from airflow_backfill_provider.core.job.visibility import Visibility
from airflow_backfill_provider.core.refresh import INCREMENTAL_OR_AUTO, Refresh
from airflow_backfill_provider.shapes.base import Shape, ViewWriter, WriterContext

if TYPE_CHECKING:
    from airflow_backfill_provider.core.job.definition import BackfillJob
    from airflow_backfill_provider.shapes.united.query import UnionQuery


class Union(Shape):
    """All rows of the view that one branch gives for one row of its lead."""

    name: ClassVar[str] = "union"
    replaces_columns: ClassVar[bool] = True
    keeps_former_rows: ClassVar[bool] = True
    strategies: ClassVar[frozenset[str] | None] = frozenset({"snapshot"})
    only_visibility: ClassVar[Visibility | None] = Visibility.ON_FINISH
    takes_upstreams: ClassVar[bool] = True
    refreshes: ClassVar[frozenset[Refresh]] = INCREMENTAL_OR_AUTO

    def claims(self, text: str) -> bool:
        """Return whether a query unites relations."""
        from airflow_backfill_provider.shapes.united.query import looks_united

        return looks_united(text)

    def query(self, text: str) -> UnionQuery:
        """Parse a union."""
        from airflow_backfill_provider.shapes.united.query import check_union_query

        return check_union_query(text)

    def require_job(self, job: BackfillJob) -> None:
        """Refuse a lead that leads no branch, a part of one upstream, and joins of the only table without a name."""
        from airflow_backfill_provider.shapes.joined.job_checks import require_branches, require_upstreams

        query = self.query(job.query)
        require_upstreams(job, query)
        require_branches(job, query)

    def writer(self, context: WriterContext) -> ViewWriter:
        """Return the writer that replaces what the branches give for affected leads."""
        from airflow_backfill_provider.shapes.united.writer import UnionWriter

        return UnionWriter(context)
