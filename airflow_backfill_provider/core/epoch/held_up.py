"""
Backfills that are held up: the upstream's writers add rows about as fast as the rate limit reads them.

Such a backfill would not end, for example if keys are only ever added after the greatest one. So its rate limit is
raised: once five epochs were held up it is doubled, after five more doubled again, and so on. At last it is lifted. A
limit that the writers leave room for is never raised. Both the count and what it follows from are pinned (I2).

The executors have no counterpart: there, such a backfill goes on until somebody raises its rate limit.
"""

from __future__ import annotations

from collections.abc import Iterable

from airflow_backfill_provider.core import text
from airflow_backfill_provider.core.epoch.barrier import Barrier, CountedRows
from airflow_backfill_provider.core.epoch.settings import JobSettings, SettingsChange
from airflow_backfill_provider.core.job.rate_limit import GREATEST_RATE_LIMIT, ChosenLimit

PATIENCE = 5
"""After so many epochs that were held up, the limit is doubled."""

MOST_DOUBLINGS = 10
"""With the last one, the limit is lifted: the next epoch reads all that is left."""

LEAST_SHARE = 0.25
"""An epoch is held up if the unread rows become fewer by less than this share of its rate limit."""


def held_up_before(previous: Barrier | None, changes: Iterable[JobSettings]) -> int:
    """
    Return how many epochs before a barrier were held up by the limit that is in force.

    :param previous: that barrier, the newest one of the incarnation; ``None`` if there is none.
    :param changes: the settings' records since then. The count begins again with a limit that somebody sets.
    """
    is_set_anew = any(record.change is SettingsChange.THROTTLE for record in changes)
    return 0 if previous is None or is_set_anew else previous.held_up


def counted(previous: Barrier | None, left: int | None) -> tuple[CountedRows | None, int]:
    """
    Return the rows that are left, for the next barrier, and how many more epochs were held up.

    While changes wait, chunks are read at an older offset, where no rows are added. Rows are not counted there; they
    are once the epochs come back to the present, and then all epochs in between were held up, or none.

    :param previous: the newest barrier of the incarnation; ``None`` if there is none.
    :param left: the rows that were left after its epoch; ``None`` if that is not known.
    """
    if previous is None or previous.unread is None:
        return None if left is None else CountedRows(rows=left), 0
    has_read = bool(previous.parts) and previous.given_up is None
    before = previous.unread.model_copy(update={"epochs": previous.unread.epochs + has_read})
    if left is None or previous.older_offset is not None:
        return before, 0
    wanted = before.epochs * (previous.rate_limit or 0)
    is_held_up = previous.rate_limit is not None and before.rows - left < LEAST_SHARE * wanted
    return CountedRows(rows=left), before.epochs if is_held_up else 0


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
