"""
What an epoch costs if a small part of one of several upstreams changes, for the dry run.

A changed row of a lead is joined anew; a changed row of another upstream joins all rows of leads anew that it touches.
How many these are is estimated by the numbers of rows, and counted where that is quick.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

from pydantic import BaseModel, ConfigDict

from airflow_backfill_provider.core.refresh_cost import JOIN, break_even
from airflow_backfill_provider.shapes.spread import Branch, Spread, touched_by, upstreams_of

CHANGED_SHARE = 1000
"""One of so many rows changes: 0.1 %."""

BROADCAST_BYTES = 10 * 1024 * 1024
"""What Spark sends to every executor rather than to sort it, by default (``autoBroadcastJoinThreshold``)."""


class PlannedChange(BaseModel):
    """
    An epoch in which 0.1 % of one upstream changes.

    :param changed: the changed rows; at least one.
    :param leads: the upstreams whose rows are joined anew.
    :param touched: about how many of their rows are.
    :param touched_at_most: how many at most; ``None`` if that was not counted.
    :param reads: the tables that it reads whole, each with its rows.
    :param break_even: from how many changed rows on a rebuild costs less; ``None`` if it does not even if all rows
        change, 0 if it always does.
    :param cost: the name of what an epoch costs, by which that was computed.
    """

    model_config = ConfigDict(frozen=True)

    changed: int
    leads: tuple[str, ...]
    touched: int
    touched_at_most: int | None
    reads: dict[str, int]
    break_even: int | None
    cost: str = JOIN


def planned_changes(
    branches: Sequence[Branch], rows: Mapping[str, int], always: Collection[str] = (), cost: str = JOIN
) -> dict[str, PlannedChange]:
    """
    Return an epoch for each upstream in which only that one changes.

    :param branches: the parts of the query.
    :param rows: the rows of each upstream.
    :param always: the upstreams that each epoch reads whole, whichever changes.
    :param cost: the name of what an epoch costs.
    """
    limit = break_even(cost, sum(rows[branch.lead] for branch in branches))
    return {name: _change(branches, rows, name, always, cost, limit) for name in upstreams_of(branches)}


def _change(
    branches: Sequence[Branch], rows: Mapping[str, int], name: str, always: Collection[str], cost: str, limit: int
) -> PlannedChange:
    changed, spread = max(rows[name] // CHANGED_SHARE, 1), touched_by(branches, name)
    touched = [branch for branch in branches if branch.touched_by(name) is not None]
    there = sum(rows[branch.lead] for branch in touched)
    return PlannedChange(
        changed=changed,
        leads=tuple(dict.fromkeys(branch.lead for branch in touched)),
        touched=min(round(changed * spread.mean), there),
        touched_at_most=None if spread.most is None else min(changed * spread.most, there),
        reads={table: rows[table] for table in dict.fromkeys([*_read_for(touched, name), *always])},
        break_even=_break_even(limit, rows[name], spread),
        cost=cost,
    )


def _read_for(touched: Sequence[Branch], name: str) -> list[str]:
    """Return the upstreams that branches read whole for changes of one of theirs."""
    found: list[str] = []
    for branch in touched:
        # The rows of the lead that changed rows touch are looked for among all of them.
        found += [branch.lead] if name in branch.spreads else []
        found += branch.spreads
    return found


def _break_even(limit: int, rows: int, spread: Spread) -> int | None:
    if not limit:
        return 0
    if not spread.mean:
        return None
    changed = math.ceil(limit / spread.mean)
    return changed if changed <= rows else None
