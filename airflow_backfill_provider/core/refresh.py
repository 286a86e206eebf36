"""
How a finished view follows its upstream: by what changed, or computed whole.

``incremental`` computes only what changes touch. ``full`` computes the whole view in each epoch that finds changed
rows; it needs no change feed, and it accepts queries that nothing else can keep up to date. ``auto`` lets each epoch
choose what costs less. Nothing is ever computed whole unless a job asks for it.
"""

from __future__ import annotations

from enum import StrEnum

from airflow_backfill_provider.core.frozen import Frozen


class Refresh(StrEnum):
    """
    What an epoch computes when rows of the upstream changed.

    ``incremental``: the units of the view that the changes touch. ``full``: the whole view. ``auto``: either, by
    :mod:`~airflow_backfill_provider.core.refresh_cost`.
    """

    INCREMENTAL = "incremental"
    FULL = "full"
    AUTO = "auto"


INCREMENTAL_ONLY = frozenset({Refresh.INCREMENTAL})
INCREMENTAL_OR_AUTO = frozenset({Refresh.INCREMENTAL, Refresh.AUTO})

NO_CHOICE = (
    "refresh: auto chooses for views of groups and of several upstreams; leave it out, since an epoch of this query "
    "reads only what changed"
)
"""The refusal of ``auto`` for a query whose rows are computed one by one."""

WAY_OUT = "or keep the query and set refresh: full, which computes the whole view whenever rows change"
"""The advice for a query that only ``full`` accepts."""

THROUGH_A_ROW_VIEW = (
    "make a view of its rows first (SELECT … FROM upstream), and let this job read that view once it is finished"
)
"""The advice for an upstream that a query cannot follow, but a view of its rows can."""


class PinnedRefresh(Frozen):
    """
    What an epoch with changes computes; a part of its barrier.

    :param whole: whether it computes the whole view.
    :param reason: why, for people.
    """

    whole: bool
    reason: str


ASKED_FOR = PinnedRefresh(whole=True, reason="the job asks for refresh: full")
"""The refresh of each epoch of a job with ``full``."""
