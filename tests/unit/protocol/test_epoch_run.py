"""An attempt of an epoch: what its task runs report together, and which barriers it refuses."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from airflow_backfill_provider.core.epoch.engine import PartWrites
from airflow_backfill_provider.core.epoch.epoch_record import EpochReport
from airflow_backfill_provider.core.errors import StateError
from airflow_backfill_provider.core.scan.progress import InProgress
from airflow_backfill_provider.protocol.epoch_run import merge_reports, reported_by, require_current
from tests.builders import NOW, barrier_of, report_of, settings_of
from tests.unit.strategies.scan_states import state_of

BARRIER = barrier_of(3)


@pytest.mark.parametrize("part", [None, 0, 2])
def test_a_report_says_which_epoch_and_part_it_is_of(part):
    writes = PartWrites({0: 3, 2: 5}, {"changes": 0.5}, rows_added=-2)
    assert reported_by(BARRIER, part, writes, NOW) == EpochReport(
        epoch=3,
        incarnation="a1",
        digest=BARRIER.digest,
        part=part,
        rows={0: 3, 2: 5},
        rows_added=-2,
        seconds={"changes": 0.5},
        reported_at=NOW,
    )


def test_combined_reports_are_what_one_task_run_would_have_written():
    """Rows of a vnode that two parts read are summed; of what task runs did at the same time the longest counts."""
    reports = [
        report_of(BARRIER, 1, rows={1: 4, 2: 1}, seconds={"chunk": 2.0, "count": 0.1}),
        report_of(BARRIER, None, rows={0: 7}, rows_added=-3, seconds={"changes": 0.5}),
        report_of(BARRIER, 0, rows={0: 2, 1: 3}, seconds={"chunk": 5.0, "count": 0.2}),
    ]
    for order in (reports, reports[::-1]):
        writes = merge_reports(order)
        assert dict(writes.snapshot_rows) == {0: 2, 1: 7, 2: 1}
        assert (writes.change_rows, writes.rows_added) == (7, -3)
        assert writes.seconds == {"changes": 0.5, "chunk": 5.0, "count": 0.2}


def test_an_epoch_without_parts_has_the_report_of_its_changes_alone():
    writes = merge_reports([report_of(BARRIER, None, rows={0: 7}, seconds={"changes": 0.5})])
    assert (dict(writes.snapshot_rows), writes.change_rows) == ({}, 7)


def current(*, state_epoch=2, **changes):
    settings = settings_of(**changes)
    barrier = barrier_of(3, definition=settings_of().definition_digest)
    state = state_of(InProgress((5,), 1), epoch=state_epoch)
    require_current(barrier, settings, SimpleNamespace(state_of=lambda _: state))


@pytest.mark.parametrize("state_epoch", [2, 3])
def test_a_barrier_of_the_settings_in_force_is_run_also_after_its_state_was_committed(state_epoch):
    current(state_epoch=state_epoch)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"incarnation": "b2"}, "belongs to an earlier incarnation of job paid_orders"),
        ({"strategy": "arrangement"}, "was pinned for another definition of job paid_orders"),
        ({"state_epoch": 4}, "is of epoch 4, but epoch 3 is not committed"),
    ],
)
def test_any_other_barrier_is_refused(changes, message):
    """I5."""
    with pytest.raises(StateError, match=message):
        current(**changes)
