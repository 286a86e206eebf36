"""
When computing a whole view costs less than applying the changes: the break-even.

An epoch costs a fixed time, a time for each row of the upstream, and one for each changed row. The cost is given in
rows: as many as the statement that computes the whole view reads in the same time. Machines differ in their speed, and
much less in these ratios. ``make bench ARGS=groups`` and ``ARGS=joins`` measure and print them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from airflow_backfill_provider.core import text
from airflow_backfill_provider.core.refresh import PinnedRefresh, Refresh


@dataclass(frozen=True, slots=True)
class EpochCost:
    """
    What an epoch that applies changes costs, in rows that computing the whole view reads in the same time.

    :param fixed: the epoch itself.
    :param row: each row of the upstream.
    :param change: each changed row.
    """

    fixed: float
    row: float
    change: float


FOLD, SLICE, WINDOWS, JOIN = "fold", "slice", "slice of windows", "join"

EPOCH_COSTS: Mapping[str, EpochCost] = {
    FOLD: EpochCost(fixed=5_900_000, row=0.945, change=76),
    SLICE: EpochCost(fixed=2_300_000, row=0.424, change=19),
    WINDOWS: EpochCost(fixed=4_200_000, row=1.441, change=49),
    JOIN: EpochCost(fixed=2_300_000, row=0.15, change=40),
}
"""
The costs by the way in which changes are applied.

Those of groups are of one run of the benchmark with 20 million rows. Its tables had deletion vectors, and rows were
deleted in every file. Spark's change feed then reads all files, which is nearly all of a fold's cost for each row.
Changes without deletes cost less. Those of a join are :data:`ESTIMATED`; a changed row is a row of the lead there that
is joined anew.
"""

ESTIMATED = frozenset({JOIN})
"""The ways whose costs are estimates that no run has measured yet; ``make bench ARGS=joins`` prints what to write."""


def break_even(name: str, rows: int) -> int:
    """
    Return from how many changed rows on computing the whole view costs less; 0 if it always does.

    :param name: the name of the cost.
    :param rows: the rows of the upstream.
    """
    cost = EPOCH_COSTS[name]
    return max(math.ceil(((1 - cost.row) * rows - cost.fixed) / cost.change), 0)


def basis(name: str) -> str:
    """Return by what a cost is known, in words."""
    return "by an estimate" if name in ESTIMATED else "by the benchmark"


def cheaper_refresh(name: str, *, rows: int, changes: int | None) -> PinnedRefresh:
    """
    Return what an epoch computes that may choose, and why.

    :param name: the name of the cost.
    :param rows: the rows of the upstream, about.
    :param changes: about how many rows changed; ``None`` if the upstream does not tell. More than the break-even may be
        counted only up to there.
    """
    limit = break_even(name, rows)
    if not limit:
        return PinnedRefresh(whole=True, reason=f"computing all of {text.rows(rows)} costs less than any {name}")
    if changes is None:
        return PinnedRefresh(whole=False, reason="the upstream does not tell how many rows changed")
    if changes < limit:
        return PinnedRefresh(
            whole=False,
            reason=f"about {text.rows(changes)} changed, and below {text.rows(limit)} a {name} costs less",
        )
    return PinnedRefresh(
        whole=True, reason=f"at least {text.rows(limit)} changed, and from there on computing the whole view costs less"
    )


def described_break_even(limit: int, rows: int, refresh: Refresh) -> str:
    """
    Return the break-even in words, and what follows from it.

    :param limit: the break-even.
    :param rows: the rows of the upstream.
    :param refresh: what the job asks for.
    """
    chooses = refresh is Refresh.AUTO
    if not limit:
        follows = "each epoch does that" if chooses else "set refresh: full, or auto"
        return f"by the benchmark, computing the whole view always costs less for {text.rows(rows)}: {follows}"
    share = text.percent(limit / rows) if rows else ""
    follows = "each epoch chooses" if chooses else "refresh: auto chooses for each epoch"
    return (
        f"by the benchmark, computing the whole view costs less if more than about {text.rows(limit)} ({share}) change "
        f"between two epochs; {follows}"
    )
