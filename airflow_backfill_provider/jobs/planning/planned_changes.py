"""
What an epoch costs if a small part of one of several upstreams changes, for the dry run.

A changed row of the lead is joined anew; a changed row of another upstream joins all rows of the lead anew that it
touches. How many these are is estimated by the numbers of rows, and counted where that is quick.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict

from airflow_backfill_provider.core.refresh_cost import JOIN, break_even
from airflow_backfill_provider.shapes.spread import Spread

CHANGED_SHARE = 1000
"""One of so many rows changes: 0.1 %."""

BROADCAST_BYTES = 10 * 1024 * 1024
"""What Spark sends to every executor rather than to sort it, by default (``autoBroadcastJoinThreshold``)."""


class PlannedChange(BaseModel):
    """
    An epoch in which 0.1 % of one upstream changes.

    :param changed: the changed rows; at least one.
    :param touched: about how many rows of the lead are joined anew.
    :param touched_at_most: how many at most; ``None`` if that was not counted.
    :param reads: the tables that it reads whole, each with its rows.
    :param break_even: from how many changed rows on a rebuild costs less; ``None`` if it does not even if all rows
        change, 0 if it always does.
    :param cost: the name of what an epoch costs, by which that was computed.
    """

    model_config = ConfigDict(frozen=True)

    changed: int
    touched: int
    touched_at_most: int | None
    reads: dict[str, int]
    break_even: int | None
    cost: str = JOIN


def planned_changes(
    lead: str, rows: Mapping[str, int], whole: Mapping[str, int], spreads: Mapping[str, Spread], cost: str = JOIN
) -> dict[str, PlannedChange]:
    """
    Return an epoch for each upstream in which only that one changes.

    :param lead: the name of the upstream that leads.
    :param rows: the rows of each upstream.
    :param whole: the rows of those that each epoch reads whole.
    :param spreads: by upstream how many rows of the lead a changed row touches; that of the lead if it is joined with
        itself.
    :param cost: the name of what an epoch costs.
    """
    itself = Spread(mean=1.0, most=1)
    own = itself.plus(spreads[lead]) if lead in spreads else itself
    of_others = {name: spread for name, spread in spreads.items() if name != lead}
    found = {lead: _change(rows, lead, lead, own, whole if lead not in spreads else {**whole, lead: rows[lead]}, cost)}
    for name, spread in of_others.items():
        # The rows of the lead that changed rows touch are looked for among all of them.
        found[name] = _change(rows, lead, name, spread, {lead: rows[lead], **whole}, cost)
    return found


def _change(
    rows: Mapping[str, int], lead: str, name: str, spread: Spread, reads: Mapping[str, int], cost: str
) -> PlannedChange:
    changed = max(rows[name] // CHANGED_SHARE, 1)
    return PlannedChange(
        changed=changed,
        touched=min(round(changed * spread.mean), rows[lead]),
        touched_at_most=None if spread.most is None else min(changed * spread.most, rows[lead]),
        reads=dict(reads),
        break_even=_break_even(rows[lead], rows[name], spread, cost),
        cost=cost,
    )


def _break_even(leads: int, rows: int, spread: Spread, cost: str) -> int | None:
    limit = break_even(cost, leads)
    if not limit:
        return 0
    if not spread.mean:
        return None
    changed = math.ceil(limit / spread.mean)
    return changed if changed <= rows else None
