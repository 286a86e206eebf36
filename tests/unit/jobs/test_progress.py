"""The progress of a job from the newest two records of its barrier log."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.jobs.progress import current_progress, progress_after
from tests.builders import barrier_of, commit_of, window_of


class Log:
    """A reader of a barrier log; records from which epoch on it was read."""

    def __init__(self, barriers=(), commits=()):
        self.barriers = barriers
        self.commits = commits
        self.read_since = []

    def last_epoch(self):
        return max((barrier.epoch for barrier in self.barriers), default=0)

    def log(self, *, since_epoch):
        self.read_since.append(since_epoch)
        return tuple(
            [record for record in records if record.epoch >= since_epoch] for records in (self.barriers, self.commits)
        )


def epochs(count, *, rows=1000, **changes):
    barriers = [barrier_of(e, upstream=window_of(e - 2, e - 1, row_count=rows), **changes) for e in range(1, count + 1)]
    return barriers, [commit_of(barrier, rows_read=100 * barrier.epoch) for barrier in barriers]


def test_before_the_first_epoch_nothing_is_done():
    assert current_progress(Log(), "a1") == (0.0, 0)
    assert current_progress(Log(barriers=epochs(1)[0]), "a1") == (0.0, 0)


def test_the_last_committed_epoch_counts_also_while_the_next_one_is_pinned():
    barriers, commits = epochs(4)
    log = Log(barriers, commits)
    assert current_progress(log, "a1") == (0.4, 4)
    pinned = Log(barriers, commits[:3])
    assert current_progress(pinned, "a1") == (0.3, 3)
    assert (log.read_since, pinned.read_since) == ([3], [3]), "however long the log is"


def test_an_earlier_incarnation_does_not_count():
    assert current_progress(Log(*epochs(4)), "b2") == (0.0, 0)


@pytest.mark.parametrize(
    ("rows_read", "estimate", "completed", "progress"),
    [(0, 1000, False, 0.0), (500, 1000, False, 0.5), (500, 1000, True, 1.0), (0, 0, True, 1.0)],
)
def test_progress_is_the_share_of_the_estimated_rows(rows_read, estimate, completed, progress):
    barrier = barrier_of(upstream=window_of(row_count=estimate))
    assert progress_after(commit_of(barrier, rows_read=rows_read, completed=completed), barrier) == progress


@pytest.mark.parametrize("rows_read", [1000, 5000])
def test_it_is_less_than_all_until_every_vnode_is_completed(rows_read):
    barrier = barrier_of(upstream=window_of(row_count=1000))
    assert 0.99 < progress_after(commit_of(barrier, rows_read=rows_read), barrier) < 1
