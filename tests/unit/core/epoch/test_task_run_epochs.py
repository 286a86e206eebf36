"""Whether a task run may pin another epoch."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.epoch.task_run_epochs import TaskRunEpochs
from tests.builders import barrier_of, commit_of

FIRST, SECOND = barrier_of(4), barrier_of(5)


def test_a_task_run_that_pinned_nothing_may_pin_one():
    assert TaskRunEpochs().may_pin_another(1)
    assert TaskRunEpochs().due is None


@pytest.mark.parametrize(("most", "may"), [(1, False), (2, False), (3, True)])
def test_no_more_epochs_are_pinned_than_requested(most, may):
    carried = TaskRunEpochs(barriers=(FIRST, SECOND), commits=(commit_of(FIRST), commit_of(SECOND)))
    assert carried.may_pin_another(most) is may
    assert carried.due is None


def test_nothing_is_pinned_before_the_due_epoch_is_committed():
    carried = TaskRunEpochs(barriers=(FIRST, SECOND), commits=(commit_of(FIRST),))
    assert carried.due == SECOND
    assert not carried.may_pin_another(9)


def test_nothing_is_pinned_once_every_vnode_is_completed():
    assert not TaskRunEpochs(barriers=(FIRST,), commits=(commit_of(FIRST, completed=True),)).may_pin_another(9)


def test_the_newest_epoch_says_whether_every_vnode_is_completed():
    commits = (commit_of(FIRST), commit_of(SECOND, completed=True))
    assert not TaskRunEpochs(barriers=(FIRST, SECOND), commits=commits).may_pin_another(9)
