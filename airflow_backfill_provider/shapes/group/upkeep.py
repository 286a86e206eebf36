"""How a view of groups is kept up to date, in words for the dry run."""

from __future__ import annotations

from airflow_backfill_provider.shapes.queries import Upkeep

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


def upkeep_of(technique: str, *, is_global: bool) -> Upkeep | None:
    """
    Return how a view is kept up to date; ``None`` if its technique has no words here.

    :param is_global: whether the view is one group.
    """
    if technique != _SLICE:
        return None
    return _ONE_GROUP if is_global else _TOUCHED
