"""A backfill in key order ends, however fast writers add rows behind its position."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.epoch.held_up import (
    LEAST_SHARE,
    MOST_DOUBLINGS,
    PATIENCE,
    counted,
    held_up_before,
    raised,
)
from airflow_backfill_provider.core.job.rate_limit import ChosenLimit
from tests.builders import barrier_of, part_of

HELD_UP = MOST_DOUBLINGS * PATIENCE
"""So many epochs can be held up, and then the limit is lifted."""


@dataclass
class Backfill:
    """
    The unread rows of a job, and its newest barrier.

    :param unread: all of them lie after the position; so do those that writers add.
    """

    unread: int
    limit: int
    previous: Barrier | None = None
    read: int = 0

    def epoch(self, added: int) -> int | None:
        """Plan and run the next epoch, as an injection does; return its rate limit."""
        self.unread += added
        rows = (
            ChosenLimit(self.limit) if self.previous is None else raised(ChosenLimit(self.limit), self.previous.held_up)
        )
        unread, held_up = counted(self.previous, self.unread)
        self.previous = barrier_of(
            unread=unread,
            held_up=held_up_before(self.previous, ()) + held_up,
            rate_limit=rows.rows,
            parts=(part_of(None, ("1",)),),
        )
        taken = self.unread if rows.rows is None else min(rows.rows, self.unread)
        self.unread -= taken
        self.read += taken
        return rows.rows


SPEEDS = st.one_of(
    st.integers(0, 5000).map(lambda speed: lambda epoch: speed),
    st.integers(0, 300).map(lambda growth: lambda epoch: growth * epoch),
    st.tuples(st.integers(0, 5000), st.integers(1, 9)).map(
        lambda burst: lambda epoch: burst[0] if epoch % burst[1] == 0 else 0
    ),
)
"""Writers of one speed, of one that grows, and of bursts: epoch → the rows that they add before it."""


@given(st.integers(0, 10_000), st.integers(1, 2000), SPEEDS)
def test_it_ends_within_about_rows_by_rate_limit_epochs(rows, limit, speed):
    """I4: an epoch that is not held up makes the unread rows fewer, by a quarter of the limit at least."""
    backfill, epochs, added = Backfill(rows, limit), 0, 0
    while epochs == 0 or backfill.unread:
        backfill.epoch(speed(epochs) if epochs else 0)
        added += speed(epochs)
        epochs += 1
        assert epochs <= HELD_UP + 1 + (rows + added) / (LEAST_SHARE * limit) + 1
        assert backfill.previous is not None
        assert backfill.previous.held_up <= HELD_UP + 1


@given(st.integers(0, 10_000), st.integers(4, 2000), st.lists(st.floats(0, 1 - LEAST_SHARE), min_size=1))
def test_a_limit_that_writers_leave_room_for_is_never_raised(rows, limit, shares):
    """The rate limit is a cap."""
    backfill, epochs = Backfill(rows, limit), 0
    while epochs == 0 or backfill.unread:
        added = int(shares[epochs % len(shares)] * limit) if epochs else 0
        before = backfill.unread
        assert backfill.epoch(added) == limit
        assert backfill.unread <= max(before - int(LEAST_SHARE * limit), 0)
        epochs += 1
