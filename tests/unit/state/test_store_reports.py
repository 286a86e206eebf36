"""The reports of task runs that share an epoch."""

from __future__ import annotations

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from airflow_backfill_provider.core.errors import StateError
from airflow_backfill_provider.state.store import BackfillStore
from tests.builders import barrier_of, report_of
from tests.unit.state.store_helpers import together, versions


def test_task_runs_that_share_an_epoch_report_one_by_one(store):
    barrier = store.pin(barrier_of(1))
    assert store.reports(barrier) == []
    reports = [report_of(barrier, part) for part in (1, None, 0)]
    for count, report in enumerate(reports, 1):
        store.record_report(barrier, report)
        assert sorted(store.reports(barrier), key=str) == sorted(reports[:count], key=str)
    assert (store.barriers(), store.commits(), store.commit_of(1)) == ([barrier], [], None)


@pytest.mark.parametrize("part", [None, 0])
def test_the_first_report_of_a_part_wins(store, part):
    """I2: a zombie of an earlier attempt reports the same rows; its timings do not count."""
    barrier = store.pin(barrier_of(1))
    first = report_of(barrier, part)
    store.record_report(barrier, first)
    before = versions(store)
    store.record_report(barrier, report_of(barrier, part, seconds={"chunk": 99.0}))
    assert store.reports(barrier) == [first]
    assert versions(store) == before


def test_parts_that_are_reported_at_once_are_all_recorded_once(store):
    barrier = store.pin(barrier_of(1))
    together(8, lambda n: BackfillStore(store.location).record_report(barrier, report_of(barrier, n % 4)))
    assert sorted(report.part for report in store.reports(barrier)) == [0, 1, 2, 3]


def test_each_epoch_has_its_own_reports(store):
    first, second = (store.pin(barrier_of(epoch)) for epoch in (1, 2))
    store.record_report(first, report_of(first, 0))
    store.record_report(second, report_of(second, 1))
    assert [report.part for report in store.reports(first)] == [0]
    assert [report.part for report in store.reports(second)] == [1]


def test_a_report_is_a_row_that_can_be_queried(store):
    barrier = store.pin(barrier_of(1))
    store.record_report(barrier, report_of(barrier, None, rows={0: 7}))
    store.record_report(barrier, report_of(barrier, 1, rows={2: 5, 3: 6}))
    rows = pa.table(DeltaTable(f"{store.location}/barrier_log").to_pyarrow_table()).to_pylist()
    reported = {row["snapshot_read_row_count"]: row for row in rows if row["event"] == "reported"}
    assert set(reported) == {None, 11}
    assert (reported[None]["upstream_output_row_count"], reported[11]["upstream_output_row_count"]) == (7, None)
    assert (reported[11]["epoch"], reported[11]["seconds"]) == (1, 1.5)


def test_a_report_that_somebody_edited_is_refused(store):
    """I6."""
    barrier = store.pin(barrier_of(1))
    store.record_report(barrier, report_of(barrier, 0))
    DeltaTable(f"{store.location}/barrier_log").update(updates={"record": "'{}'"}, predicate="event = 'reported'")
    with pytest.raises(StateError, match=r"row __version 2 \(epoch 1\) has a wrong checksum"):
        store.reports(barrier)
