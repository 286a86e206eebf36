"""How a view of groups is kept up to date, in words for the dry run."""

from __future__ import annotations

from dataclasses import replace

from airflow_backfill_provider.core.refresh_cost import FOLD
from airflow_backfill_provider.shapes.queries import Upkeep

FOLDED = Upkeep(
    technique="fold",
    reason="changes are added to the state of their groups, in hidden columns of the view",
    reads="the changes and the state of the touched groups; and all rows of the upstream, if a group loses its least "
    "or greatest value",
    writes="the rows of touched groups that differ, in one commit",
    reads_appended="the rows that came, and the state of their groups",
    reads_all=False,
    cost=FOLD,
)

MAYBE_FOLDED = replace(
    FOLDED, reason=f"{FOLDED.reason}; if the types of its aggregates allow it, which creation finds out"
)


def sliced(because: str, *, is_global: bool, cost: str) -> Upkeep:
    """
    Return how a view is kept up to date whose touched groups are computed anew.

    :param because: why they are not folded.
    :param is_global: whether the view is one group.
    :param cost: the name of its cost.
    """
    if is_global:
        return Upkeep(
            technique="slice",
            reason=f"the view is one group, so each change computes all of it anew, because {because}; refresh: full "
            "computes it, too, and does not read the changes",
            reads="the changes, and all rows of the upstream again",
            writes="its one row, if it differs, in one commit",
            cost=cost,
        )
    return Upkeep(
        technique="slice",
        reason=f"the groups that changes touch are computed anew, because {because}",
        reads="the changes, and all rows of the upstream again to find those of the touched groups",
        writes="the rows of touched groups that differ, in one commit",
        cost=cost,
    )
