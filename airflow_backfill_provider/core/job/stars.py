"""What the stars of a job's query stand for once an upstream gets columns that it did not have at creation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.job.cut_over import GatedCutOver

if TYPE_CHECKING:
    from airflow_backfill_provider.core.job.upstream import UpstreamDefinition


class Star(StrEnum):
    """
    What a star stands for.

    ``freeze``: the columns that the upstream had when the job was created. ``follow``: also those that it got since.
    """

    FREEZE = "freeze"
    FOLLOW = "follow"


class StarredQuery(GatedCutOver):
    """
    The field of a job that says what the stars of its query stand for.

    :param star: whether a star of the query stands for the columns that the upstreams had when the job was created,
        ``freeze``, the default, or also for those that come later: ``follow``. Once the view is finished, the epoch
        after the one that meets such a column writes the whole view with it.
    """

    star: Annotated[Star, Field(exclude_if=lambda star: star is Star.FREEZE)] = Star.FREEZE

    @property
    def follows_stars(self) -> bool:
        """Whether the view gets the columns that come to its upstreams."""
        return self.star is Star.FOLLOW

    def require_followable(
        self, query: str, upstreams: Iterable[UpstreamDefinition], *, keeps_arrangement: bool
    ) -> None:
        """
        Refuse a job whose view could not get the columns that come to its upstreams.

        :raises InvalidJobError: with the reason.
        """
        if not self.follows_stars:
            return
        why = next(self._why_frozen(query, upstreams, keeps_arrangement=keeps_arrangement), None)
        if why is not None:
            raise InvalidJobError(f"star: {why}; leave star out, or set it to freeze")

    def _why_frozen(
        self, query: str, upstreams: Iterable[UpstreamDefinition], *, keeps_arrangement: bool
    ) -> Iterator[str]:
        """Yield why the view could not get another column."""
        if "*" not in query:
            yield "the query has no star"
        if self.keep.keeps_former_rows:
            yield f"a view that keeps former rows (keep: {self.keep}) has none of them in a new column"
        if self.cluster_by:
            yield "Delta would no longer cluster the view's table (cluster_by)"
        if keeps_arrangement:
            yield "the arrangement that the job keeps has the columns of creation only"
        for found in upstreams:
            if not found.keeps_all_columns:
                yield (
                    f"an upstream of kind {found.kind} does not keep what its rows have in columns that the job did "
                    "not use"
                )
