"""
Backfills that are held up: the upstream's writers add rows about as fast as the rate limit reads them.

Such a backfill would not end, for example if keys are only ever added after the greatest one. So its rate limit is
raised: once five epochs were held up it is doubled, after five more doubled again, and so on. At last it is lifted. A
limit that the writers leave room for is never raised. Both the count and what it follows from are pinned (I2).

The executors have no counterpart: there, such a backfill goes on until somebody raises its rate limit.
"""

from __future__ import annotations

from airflow_backfill_provider.core import text
from airflow_backfill_provider.core.barrier import Barrier
from airflow_backfill_provider.core.rate_limit import GREATEST_RATE_LIMIT, ChosenLimit

PATIENCE = 5
"""After so many epochs that were held up, the limit is doubled."""

MOST_DOUBLINGS = 10
"""With the last one, the limit is lifted: the next epoch reads all that is left."""

LEAST_SHARE = 0.25
"""An epoch is held up if the unread rows become fewer by less than this share of its rate limit."""


def held_up_epochs(previous: Barrier | None, unread: int | None) -> int:
    """
    Return how many epochs of the incarnation were held up.

    :param previous: the previous barrier of the incarnation, if there is one.
    :param unread: the rows that were left to read after its epoch; ``None`` if that is not known.
    """
    if previous is None:
        return 0
    read = previous.parts and previous.given_up is None
    if not read or previous.rate_limit is None or previous.unread is None or unread is None:
        return previous.held_up
    return previous.held_up + (previous.unread - unread < LEAST_SHARE * previous.rate_limit)


def raised(limit: ChosenLimit, held_up: int) -> ChosenLimit:
    """
    Return the rate limit of the next epoch, raised if so many epochs were held up.

    :param limit: the limit that the settings ask for.
    """
    doublings = held_up // PATIENCE
    if not (limit.rows and doublings):
        return limit
    reason = (
        f"raised from {text.rows(limit.rows)} so that the backfill ends: in {held_up:,} epochs, the upstream's writers "
        "added rows about as fast as the epochs read them"
    )
    if doublings >= MOST_DOUBLINGS:
        return ChosenLimit(None, reason)
    return ChosenLimit(min(limit.rows << doublings, GREATEST_RATE_LIMIT), reason)
