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

    def after(self, stage: EpochCost) -> EpochCost:
        """Return what two stages cost together; computing the whole view has both, too, and takes twice as long."""
        return EpochCost(
            fixed=(self.fixed + stage.fixed) / 2,
            row=(self.row + stage.row) / 2,
            change=(self.change + stage.change) / 2,
        )


FOLD, SLICE, WINDOWS, JOIN = "fold", "slice", "slice of windows", "join"

_OF_ONE_STAGE: Mapping[str, EpochCost] = {
    FOLD: EpochCost(fixed=1_200_000, row=0.0, change=98),
    SLICE: EpochCost(fixed=800_000, row=0.046, change=30),
    WINDOWS: EpochCost(fixed=600_000, row=0.195, change=76),
    JOIN: EpochCost(fixed=600_000, row=0.209, change=86),
}


def over_join(name: str) -> str:
    """Return the name of what a way for groups costs if these are groups over a join."""
    return f"{name} over a join"


_OF_ONE_UPSTREAM = frozenset({FOLD, SLICE, WINDOWS})

_OVER_JOIN = {over_join(name): _OF_ONE_STAGE[name].after(_OF_ONE_STAGE[JOIN]) for name in _OF_ONE_UPSTREAM}

EPOCH_COSTS: Mapping[str, EpochCost] = {**_OF_ONE_STAGE, **_OVER_JOIN}
"""
The costs by the way in which changes are applied.

They are of one round of the benchmark with 20 million rows, without deletion vectors, which new tables do not have by
default. In a table with deletion vectors a DELETE writes no changes, so Spark's change feed reads each file with a
deleted row whole, and an epoch costs up to a quarter more for each row of the upstream. For a join, a changed row is a
row of the lead that is joined anew. Groups over a join are :data:`ESTIMATED` by both of their stages.
"""

ESTIMATED = frozenset(_OVER_JOIN)
"""The ways whose costs no run has measured."""


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
    :param rows: the rows of the upstream, or of those that lead; about.
    :param changes: about how many of them changed or are affected; ``None`` if an upstream does not tell. More than the
        break-even may be counted only up to there.
    """
    chosen = _cheaper(name, rows, changes)
    return chosen.model_copy(update={"reason": f"{basis(name)}, {chosen.reason}"}) if name in ESTIMATED else chosen


def _cheaper(name: str, rows: int, changes: int | None) -> PinnedRefresh:
    limit, verb = break_even(name, rows), "changed" if name in _OF_ONE_UPSTREAM else "would be joined anew"
    if not limit:
        return PinnedRefresh(whole=True, reason=f"computing all of {text.rows(rows)} costs less than any {name}")
    if changes is None:
        return PinnedRefresh(whole=False, reason="the upstream does not tell how many rows changed")
    if changes < limit:
        return PinnedRefresh(
            whole=False,
            reason=f"about {text.rows(changes)} {verb}, and below {text.rows(limit)} a {name} costs less",
        )
    return PinnedRefresh(
        whole=True, reason=f"at least {text.rows(limit)} {verb}, and from there on computing the whole view costs less"
    )


def described_break_even(name: str, limit: int, rows: int, refresh: Refresh) -> str:
    """
    Return the break-even in words, and what follows from it.

    :param name: the name of the cost.
    :param limit: the break-even.
    :param rows: the rows of the upstream, or of those that lead.
    :param refresh: what the job asks for.
    """
    chooses = refresh is Refresh.AUTO
    if not limit:
        follows = "each epoch does that" if chooses else "set refresh: full, or auto"
        return f"{basis(name)}, computing the whole view always costs less for {text.rows(rows)}: {follows}"
    share = text.percent(limit / rows) if rows else ""
    follows = "each epoch chooses" if chooses else "refresh: auto chooses for each epoch"
    return (
        f"{basis(name)}, computing the whole view costs less if more than about {text.rows(limit)} ({share}) "
        f"{'change' if name in _OF_ONE_UPSTREAM else 'are joined anew'} between two epochs; {follows}"
    )
