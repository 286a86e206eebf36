"""
Warns of an epoch in which the changes of a dimension touch so much of a view that computing it whole costs less.

This follows from numbers that the logs tell before the epoch runs: the rows of the upstreams at the ends of their
windows, and the changed rows of the dimension. Nothing else is read. The epoch applies the changes in any case.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from airflow_backfill_provider.core import text
from airflow_backfill_provider.core.refresh_cost import JOIN, basis, break_even
from airflow_backfill_provider.shapes.spread import Spread


@dataclass(frozen=True, slots=True, kw_only=True)
class CostlyChanges:
    """
    From where on changes of a dimension are costly.

    :param leads: the names of the upstreams that lead.
    :param rows: their rows.
    :param spreads: by upstream how many of them a changed row touches.
    :param cost: the name of what an epoch costs.
    """

    leads: Sequence[str]
    rows: int
    spreads: Mapping[str, Spread]
    cost: str = JOIN

    @property
    def limits(self) -> Mapping[str, int]:
        """
        From how many changed rows of an upstream on computing the whole view costs less, on average.

        None for a view that always costs less to compute: its plan says so, and a warning of each epoch would not help.
        """
        rows = break_even(self.cost, self.rows)
        return {
            name: max(math.ceil(rows / spread.mean), 1)
            for name, spread in self.spreads.items()
            if rows and spread.mean > 0
        }

    def warnings(self, changed: Mapping[str, int]) -> Iterator[str]:
        """
        Yield the warnings of an epoch.

        :param changed: about how many rows of an upstream changed in its window; those above its limit may be counted
            only up to there.
        """
        leads = " and ".join(self.leads)
        for name, limit in self.limits.items():
            if changed.get(name, 0) >= limit:
                touched = text.rows(min(limit * self.spreads[name].mean, self.rows))
                yield (
                    f"at least {text.rows(limit)} of {name} changed, and about {touched} of {leads} or more are "
                    f"joined anew; {basis(self.cost)}, a rebuild, which computes the whole view, costs less from there "
                    "on"
                )
