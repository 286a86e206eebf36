"""
Erases the former rows of keys from a view that keeps them, such as those of a person who asked for that.

The current row of a key is what the query gives. It goes once the upstream has removed the row and an epoch has ended
it. A commit that erases former rows is the job's own, and epochs may run before and after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from airflow_backfill_provider.core.epoch.engine import Exclusive
from airflow_backfill_provider.core.epoch.settings import JobSettings
from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.job.named_key import encoded_whole_key
from airflow_backfill_provider.core.scan.keys import EncodedPosition
from airflow_backfill_provider.jobs.backfill import Backfill
from airflow_backfill_provider.shapes import resolved_query_of, shape_of


class Forgetter(Exclusive, Protocol):
    """The interface that this needs from Spark; see :mod:`airflow_backfill_provider.engine`."""

    def forget(self, settings: JobSettings, keys: Sequence[EncodedPosition]) -> int:
        """Erase the former rows of some keys, in one commit; return how many these were."""
        ...


def forget_keys(backfill: Backfill, keys: Iterable[object], *, engine: Callable[[], Forgetter]) -> int:
    """
    Erase the former rows of some keys.

    :param keys: each a value, or a list with a value for each column of the key, or of those that identify a group.
    :param engine: makes the engine when it is needed; starting Spark takes seconds.
    :returns: how many rows were erased.
    :raises InvalidJobError: if the view keeps no former rows, or a key is none of the upstream's or of its groups.
    :raises MaterializedViewError: if the job's view is missing or replaced.
    """
    settings = backfill.settings()
    if not settings.definition.keep.keeps_former_rows:
        raise InvalidJobError(
            f"forget: the view of job {settings.job['name']} keeps no former rows; a row that the upstream removes "
            "goes with the next epoch"
        )
    order = resolved_query_of(settings).units(settings, by_key=False).order
    what = "key of the upstream" if shape_of(settings.definition).has_keys else "unit of the view"
    chosen = [encoded_whole_key(key, order, what, "forget") for key in keys]
    eraser = engine()
    with eraser.exclusive(backfill.job.state):
        # Another process may have rebuilt the job while this one waited for its turn.
        return eraser.forget(backfill.settings(), list(dict.fromkeys(chosen)))
