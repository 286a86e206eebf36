"""
``union``: the rows of the view are those of several branches, with UNION ALL between them.

Each branch has a lead of its own: a table, or a join that one table leads. Several branches may have the same one. A
change of any table affects some rows of some leads. What each branch of such a lead gives for them is written anew, and
all branches in one commit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.job.sql import RELATION
from airflow_backfill_provider.core.job.visibility import Visibility
from airflow_backfill_provider.core.refresh import INCREMENTAL_OR_AUTO, WAY_OUT, Refresh
from airflow_backfill_provider.shapes.base import Shape, ViewWriter, WriterContext

if TYPE_CHECKING:
    from airflow_backfill_provider.core.job.definition import BackfillJob
    from airflow_backfill_provider.shapes.united.query import UnionQuery


class Union(Shape):
    """All rows of the view that one branch gives for one row of its lead."""

    name: ClassVar[str] = "union"
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
        query = self.query(job.query)
        if not job.upstreams and query.joins:
            raise InvalidJobError(
                f"upstream: a branch joins, so name the tables under upstreams, a single one, too: upstreams: "
                f"{{{RELATION}: …}}; {WAY_OUT}"
            )
        if job.lead and job.lead.lower() not in {name.lower() for name in query.leads}:
            raise InvalidJobError(
                f"lead: {job.lead} leads no branch of the union; use {' or '.join(query.leads)}, or leave it out"
            )
        bounds = job.restrict_to.keys
        if job.restrict_to.vnodes or bounds.after is not None or bounds.up_to is not None:
            raise InvalidJobError(
                "restrict_to: a union has rows of several leads, and keys or vnodes of one would restrict its branches "
                "alone; write a WHERE in each branch"
            )

    def writer(self, context: WriterContext) -> ViewWriter:
        """Return the writer that replaces what the branches give for affected leads."""
        from airflow_backfill_provider.shapes.united.writer import UnionWriter

        return UnionWriter(context)
