"""How a view of groups is kept up to date, in words for the dry run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_backfill_provider.shapes.queries import Upkeep

if TYPE_CHECKING:
    from airflow_backfill_provider.shapes.group.query import GroupQuery

_SLICE = "slice"

_ONE_GROUP = Upkeep(
    technique=_SLICE,
    reason="the view is one group, so each change touches all of it; refresh: full computes it, too, and does not "
    "read the changes",
    reads="the changes, and all rows of the upstream again",
    writes="its one row, if it differs, in one commit",
)
_TOUCHED = Upkeep(
    technique=_SLICE,
    reason="the groups that changes touch are computed anew from their own rows, which suits any aggregate and window",
    reads="the changes, and all rows of the upstream again to find those of the touched groups",
    writes="the rows of touched groups that differ, in one merge",
)


def upkeep_of(query: GroupQuery) -> Upkeep | None:
    """Return how a query's view is kept up to date; ``None`` if its technique has no words here."""
    if query.technique != _SLICE:
        return None
    return _ONE_GROUP if query.is_global else _TOUCHED
