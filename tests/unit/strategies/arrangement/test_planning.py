"""Planning the next chunk of an arrangement: which run reads which vnodes."""

from __future__ import annotations

from airflow_backfill_provider.core.file_statistics import FileStatistics
from airflow_backfill_provider.core.progress import BackfillState, Completed, InProgress
from airflow_backfill_provider.strategies.arrangement import planning
from tests.builders import barrier_of, settings_of

IN_VNODES = (Completed(None, 1), Completed(None, 1), InProgress((5,), 1), InProgress((5,), 1))


FOUR_RUNS = ((0, 0), (1, 1), (2, 2), (3, 3))


def divided(vnodes, *, before, parallelism):
    """The vnodes that each of some runs owns, of four that have as many rows each."""
    settings = settings_of(strategy="arrangement", parallelism=parallelism)
    files = [FileStatistics(path=f"{vnode}", row_count=10, lower=(vnode,), upper=(vnode,)) for vnode in range(4)]
    previous = barrier_of(parallelism=len(before), vnode_ranges=before)
    return planning._vnode_ranges(settings, BackfillState(1, vnodes), files, previous)


def test_vnodes_stay_with_their_runs():
    assert divided((InProgress((5,), 1),) * 4, before=((0, 0), (1, 3)), parallelism=2) == ((0, 0), (1, 3))


def test_another_parallelism_divides_the_vnodes_anew():
    """Also where as many of the runs before have work left as there shall be."""
    assert divided(IN_VNODES, before=FOUR_RUNS, parallelism=2) == ((0, 2), (3, 3))


def test_runs_without_work_get_vnodes_that_others_can_spare():
    assert divided(IN_VNODES, before=((0, 1), (2, 3)), parallelism=2) == ((0, 2), (3, 3))
