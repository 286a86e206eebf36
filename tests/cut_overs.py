"""What tests of approvals need: a difference that somebody has seen, without Spark."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_backfill_provider.core.clock import Clock
from airflow_backfill_provider.core.epoch.settings import JobSettings
from airflow_backfill_provider.core.job.requester import Requester
from airflow_backfill_provider.core.scan.keys import EncodedPosition
from airflow_backfill_provider.core.status.view_difference import (
    ChangedKey,
    PinnedSides,
    RowChange,
    RowDifference,
    RowValues,
    ViewDifference,
)
from airflow_backfill_provider.jobs.backfill import Backfill
from airflow_backfill_provider.jobs.cut_over import approve
from airflow_backfill_provider.jobs.verification import view_differences

ONE_CHANGED = RowDifference(
    rows_before=10,
    rows_after=11,
    added=1,
    changed=1,
    columns={"cents": 1},
    sample=(
        ChangedKey(kind=RowChange.CHANGED, key=("3",), columns=("cents",)),
        ChangedKey(kind=RowChange.ADDED, key=("11",)),
    ),
)


class KnownComparer:
    """
    Reports the difference that a test names.

    :param rows: the difference.
    """

    def __init__(self, rows: RowDifference = ONE_CHANGED) -> None:
        self.rows = rows
        self.asked: list[PinnedSides] = []

    def difference(self, sides: PinnedSides) -> RowDifference:
        """Report it."""
        self.asked.append(sides)
        return self.rows

    def values(self, sides: PinnedSides, keys: Sequence[EncodedPosition]) -> Sequence[RowValues]:
        """Report a value for each key."""
        self.asked.append(sides)
        return [RowValues(key=key, before=({"cents": "1"},), after=({"cents": "2"},)) for key in keys]


def seen(backfill: Backfill, comparer: KnownComparer, clock: Clock) -> ViewDifference:
    """Look at the difference of what waits."""
    return view_differences.compare_waiting(
        backfill, comparer=lambda: comparer, requester=Requester(user="vera"), clock=clock
    ).recorded


def approved(backfill: Backfill, clock: Clock) -> JobSettings:
    """Look at the difference of what waits, and approve it."""
    return approve(seen(backfill, KnownComparer(), clock), store=backfill.store, approved_by="vera", clock=clock)
