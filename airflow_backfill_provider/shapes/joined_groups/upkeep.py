"""How a view of groups over several tables is kept up to date, in words for the dry run."""

from __future__ import annotations

from dataclasses import replace

from airflow_backfill_provider.core.refresh_cost import FOLD
from airflow_backfill_provider.shapes.queries import Upkeep

_FOLDED = (
    "the changes, the rows that they are joined with, before and after them, and the state of the touched groups; all "
    "rows of a lead, if a table that it is joined with has changes; and all rows of all tables, if a group loses its "
    "least or greatest value"
)
_SLICED = "the changes, and all rows of all tables again to join and find those of the touched groups"
_ALL = "the changes, and all rows of all tables again"


def upkeep_over_several(of_groups: Upkeep, *, is_global: bool) -> Upkeep:
    """
    Return how a view is kept up to date.

    :param of_groups: how it would be kept over one upstream; what it costs was measured for that alone.
    :param is_global: whether the view is one group.
    """
    sliced = _ALL if is_global else _SLICED
    reason = of_groups.reason.partition("; refresh: full")[0]
    return replace(of_groups, reason=reason, reads=_FOLDED if of_groups.cost == FOLD else sliced, cost="")
