"""Injecting when there is nothing to do."""

from __future__ import annotations

import pytest
from deltalake import DeltaTable

from airflow_backfill_provider import protocol
from airflow_backfill_provider.core.epoch import crash_points
from airflow_backfill_provider.jobs import mutations
from airflow_backfill_provider.sources.delta.versions import offset_of
from tests.unit.protocol import inject_helpers
from tests.unit.protocol.inject_helpers import write_a_version_without_rows

prepared = inject_helpers.prepared
backfilling = inject_helpers.backfilling

pytestmark = pytest.mark.slow  # whole epochs through Delta tables


def test_a_finished_job_without_changes_has_nothing_to_do(backfilling):
    backfilling.finish()
    injection = backfilling.ask()
    assert injection == protocol.Injection(None, reason="the upstream has no changes after offset 0")
    barriers, commits = backfilling.store.log()
    assert len(barriers) == 3
    assert injection.newest == (barriers[-1], commits[-1])


def test_versions_that_change_no_row_are_passed_without_an_engine(backfilling):
    """The window moves on, so that the view does not seem to lag and their log may be cleaned up."""
    backfilling.orders.add(20)
    backfilling.finish()
    rows = backfilling.rows()
    backfilling.orders.compact()
    DeltaTable(backfilling.orders.path).alter.set_table_properties({"delta.logRetentionDuration": "interval 9 days"})
    injection = backfilling.ask()
    assert (injection.barrier, injection.commit) == (None, None)
    assert injection.reason == "the upstream has no changes after offset 1"
    barriers, commits = backfilling.store.log(since_epoch=4)
    assert [(b.upstream.from_offset.number, b.upstream.to_offset.number, b.parts) for b in barriers] == [(1, 3, ())]
    assert [(c.snapshot_read_row_count, c.upstream_output_row_count, c.completed) for c in commits] == [(0, 0, True)]
    assert injection.newest == (barriers[0], commits[0])
    before = backfilling.store.commit_of(3)
    assert (commits[0].tables, commits[0].rows_read) == (before.tables, before.rows_read)
    assert (commits[0].state_epoch, commits[0].seconds) == (before.state_epoch, {})
    assert (commits[0].incarnation, commits[0].digest) == (barriers[0].incarnation, barriers[0].digest)
    assert commits[0].watermark == backfilling.orders.table.watermark(offset_of(3))
    assert commits[0].committed_at > barriers[0].injected_at
    assert backfilling.rows() == rows
    assert backfilling.ask().barrier is None
    assert len(backfilling.store.barriers()) == 4, "and nothing more without a new version"
    backfilling.orders.add(50)
    window = backfilling.inject().upstream
    assert (window.from_offset.number, window.to_offset.number) == (3, 4)
    backfilling.finish()


def test_a_window_whose_last_version_changed_no_row_has_changes_of_the_others(backfilling):
    """I1."""
    backfilling.finish()
    backfilling.orders.change([0], amount=50)
    write_a_version_without_rows(backfilling)
    assert backfilling.inject().upstream.to_offset.number == 2
    backfilling.finish()


def test_a_finished_job_still_knows_how_many_rows_there_were(backfilling):
    """For the bounds of an epoch's memory; the upstream's files are not looked at any more."""
    backfilling.finish()
    backfilling.orders.change([0], amount=50)
    assert backfilling.inject().upstream.row_count == 7


def test_an_epoch_without_work_that_died_before_its_commit_is_completed(backfilling):
    """I2."""
    backfilling.orders.add(20)
    backfilling.finish()
    backfilling.orders.compact()

    def die(_):
        crash_points.install(None)
        raise RuntimeError("died")

    crash_points.install(die)
    with pytest.raises(RuntimeError):
        backfilling.ask()
    assert [commit.upstream_output_row_count for commit in backfilling.finish()] == [0]


def test_a_paused_job_that_read_nothing_has_nothing_to_do(backfilling):
    """docs/concepts/rules.md#changes-are-filtered-by-the-old-position: NotStarted drops every change."""
    mutations.pause_job(store=backfilling.store, requested_by="x")
    backfilling.orders.add(50)
    injection = backfilling.ask()
    assert injection.reason == "paused, and nothing was read yet that could change"
    assert injection.newest == (backfilling.store.pinned(1), backfilling.store.commit_of(1))
    assert injection.newest[1].view_version is None, "no epoch has written the view"
    again = backfilling.ask()
    assert (again, again.newest) == (injection, injection.newest)


def test_a_paused_job_reads_no_snapshot_and_still_applies_changes(backfilling):
    """I4."""
    backfilling.epoch()
    mutations.pause_job(store=backfilling.store, requested_by="x")
    assert backfilling.ask().reason == "paused, and the upstream has no changes after offset 0"
    backfilling.orders.change([0, 6], amount=50)
    barrier = backfilling.inject()
    assert (barrier.parts, barrier.paused) == ((), True)
    before = backfilling.store.state()
    commit = backfilling.run(barrier)
    assert (commit.snapshot_read_row_count, commit.upstream_output_row_count) == (0, 1)
    assert backfilling.store.state() == before
    backfilling.assert_truth()
    mutations.resume_job(store=backfilling.store, requested_by="x")
    backfilling.finish()
