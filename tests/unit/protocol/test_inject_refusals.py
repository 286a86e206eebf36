"""What injecting refuses: jobs, upstreams, and control tables that were restored from a copy."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from airflow_backfill_provider import protocol
from airflow_backfill_provider.core.errors import (
    ChangeDataFeedDisabledError,
    ChangeFeedGapError,
    JobCancelledError,
    JobNotCreatedError,
    StateError,
    UpstreamError,
    UpstreamNotFoundError,
    UpstreamReplacedError,
    UpstreamSchemaChangedError,
)
from airflow_backfill_provider.core.scan.progress import BackfillState, Completed, InProgress
from airflow_backfill_provider.jobs import mutations
from airflow_backfill_provider.state import records
from airflow_backfill_provider.state.control_table import ControlTable, Write
from tests.builders import Orders, restore_copy
from tests.property.backfilling import Backfilling
from tests.unit.protocol import inject_helpers
from tests.unit.protocol.inject_helpers import clean_up, over

prepared = inject_helpers.prepared
backfilling = inject_helpers.backfilling

pytestmark = pytest.mark.slow  # whole epochs through Delta tables


# --- what is refused ------------------------------------------------------------------------------


def refused(backfilling, error, match):
    """Require I6: an error that says what to do, and nothing pinned."""
    before = backfilling.store.barriers()
    with pytest.raises(error, match=match) as caught:
        backfilling.ask()
    assert backfilling.store.barriers() == before
    return str(caught.value)


def test_a_job_that_was_not_created_is_refused(lake):
    with pytest.raises(JobNotCreatedError, match="create it first"):
        Backfilling(lake).ask()


def test_a_cancelled_job_is_refused_with_who_cancelled_it(backfilling):
    backfilling.epoch()
    mutations.cancel_job(store=backfilling.store, requested_by="vera")
    refused(backfilling, JobCancelledError, "was cancelled by vera; rebuild it to start over")


def test_a_pinned_epoch_of_a_cancelled_job_is_done_first(backfilling):
    """I1: with half of an epoch in it, its view would be as of no version."""
    backfilling.epoch()
    backfilling.orders.change([0, 6], amount=5)
    pinned = backfilling.inject()
    half_done = backfilling.engine()
    protocol.apply_changes(pinned, store=backfilling.store, engine=half_done)
    mutations.cancel_job(store=backfilling.store, requested_by="vera")
    injection = backfilling.ask()
    assert (injection.barrier, injection.commit) == (pinned, None)
    backfilling.run(pinned)
    backfilling.assert_truth()
    refused(backfilling, JobCancelledError, "was cancelled by vera; rebuild it to start over")


def test_an_arrangement_of_a_history_that_was_taken_back_is_refused_before_its_first_epoch(lake):
    """I6: the upstream's id and its number of versions are the same, but its rows are others."""
    backfilling = Backfilling(lake, strategy="arrangement")
    backfilling.orders.add(20)
    copy = backfilling.lake / "copy"
    shutil.copytree(backfilling.orders.path, copy)
    backfilling.orders.add(21)
    backfilling.create()
    restore_copy(copy, backfilling.orders.path)
    refused(backfilling, UpstreamReplacedError, "ends with version 0, but the job has read up to version 1")
    backfilling.orders.add(30)
    refused(
        backfilling,
        UpstreamReplacedError,
        "version 1 of .* was written at .*, but the job read a version 1 that was written at",
    )


def test_the_last_of_several_cancellations_is_named(backfilling):
    mutations.cancel_job(store=backfilling.store, requested_by="vera")
    backfilling.rebuild()
    mutations.cancel_job(store=backfilling.store, requested_by="otto")
    refused(backfilling, JobCancelledError, "was cancelled by otto")


def test_an_upstream_that_was_replaced_is_refused(backfilling):
    backfilling.epoch()
    shutil.rmtree(backfilling.orders.path)
    refused(backfilling, UpstreamNotFoundError, "no Delta table")
    Orders(backfilling.lake).add(1)
    Orders(backfilling.lake).add(2)
    refused(backfilling, UpstreamReplacedError, "rebuild the job")


def test_a_replaced_upstream_is_refused_also_when_its_log_is_shorter(backfilling):
    """The new table has fewer versions than the old one had: no covered window, but another table."""
    backfilling.orders.add(20)
    backfilling.orders.add(21)
    backfilling.epoch()
    shutil.rmtree(backfilling.orders.path)
    Orders(backfilling.lake).add(1)
    refused(backfilling, UpstreamReplacedError, "rebuild the job")


def test_another_upstream_is_refused_also_if_it_has_not_reached_the_arrangements_version(lake):
    """I6: no epoch was pinned yet; to say that its versions are covered would be wrong for as long as it has so few."""
    backfilling = Backfilling(lake, strategy="arrangement")
    for i in range(3):
        backfilling.orders.add(i)
    backfilling.create()
    shutil.rmtree(backfilling.orders.path)
    Orders(lake).add(1)
    refused(backfilling, UpstreamReplacedError, "rebuild the job")


def overwrite(backfilling, **columns):
    table = pa.table({name: pa.array(values) for name, values in columns.items()})
    write_deltalake(backfilling.orders.path, table, mode="overwrite", schema_mode="overwrite")


def test_columns_that_the_job_does_not_use_may_come_and_go(lake):
    backfilling = over(lake, 1, 2, query="SELECT id, status FROM upstream")
    overwrite(backfilling, id=[1, 2], status=["paid", "paid"], note=["new", "column"])
    assert backfilling.inject().upstream.to_offset.number == 1


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"id": [1, 2], "amount": [1, 1]}, "column 'status' is gone"),
        ({"id": [1, 2], "status": [1, 1]}, "column 'status' was string and is long"),
        ({"id": ["1", "2"], "status": ["a", "b"]}, "column 'id' was long and is string"),
    ],
)
def test_a_used_column_that_changed_is_refused(lake, columns, said):
    backfilling = over(lake, 1, 2, query="SELECT id, status FROM upstream")
    overwrite(backfilling, **columns)
    assert "run airflow-backfill change, or rebuild the job" in refused(backfilling, UpstreamSchemaChangedError, said)


def test_an_upstream_whose_feed_was_switched_off_is_refused_with_the_statement(backfilling):
    backfilling.epoch()
    DeltaTable(backfilling.orders.path).alter.set_table_properties({"delta.enableChangeDataFeed": "false"})
    refused(backfilling, ChangeDataFeedDisabledError, "ALTER TABLE")


def test_a_change_feed_gap_is_refused(backfilling):
    """I6."""
    backfilling.epoch()
    for i in range(20, 24):
        backfilling.orders.add(i)
    clean_up(backfilling, 2)
    message = refused(backfilling, ChangeFeedGapError, "from version 1 .* but its log begins at version 3")
    assert "Rebuild the job" in message


def test_a_job_that_read_nothing_yet_needs_no_changes_from_before(backfilling):
    """A job is created on any old table, whose first versions are long gone."""
    for i in range(20, 24):
        backfilling.orders.add(i)
    clean_up(backfilling, 2)
    backfilling.finish()
    assert len(backfilling.rows()) == 11


def test_a_version_whose_watermark_is_gone_is_refused(backfilling):
    backfilling.orders.add(20)
    clean_up(backfilling, 1)
    refused(backfilling, UpstreamError, "Rebuild|rebuild")


# --- control tables restored from a copy ----------------------------------------------------------


@pytest.mark.parametrize(
    ("table", "said"),
    [("settings", "the settings in"), ("barrier_log", "the state at"), ("vnode_state", "the state at")],
)
def test_a_control_table_restored_from_a_copy_is_refused(backfilling, table, said):
    """I6: each table is as it was written, and yet the three disagree; epoch 3 would read rows that epoch 2 read."""
    backfilling.epoch()
    place = Path(backfilling.job.state) / table
    shutil.copytree(place, backfilling.lake / "copy")
    mutations.throttle_job(2, store=backfilling.store, requested_by="tester")
    backfilling.epoch()
    restore_copy(backfilling.lake / "copy", place)
    with pytest.raises(StateError, match=f"{said}.* restored or changed[:;] rebuild the job"):
        backfilling.ask()


def test_a_state_restored_from_before_an_empty_chunk_is_refused(lake):
    """I6: it has as many rows read, and yet rows that came into the chunk since would be read a second time."""
    backfilling = over(lake, *range(7), rate_limit=3)
    backfilling.epoch()
    place = Path(backfilling.job.state) / "vnode_state"
    shutil.copytree(place, lake / "copy")
    backfilling.orders.remove(3, 4, 5, 6)
    backfilling.epoch()
    restore_copy(lake / "copy", place)
    backfilling.orders.add(5)
    with pytest.raises(StateError, match="restored or changed[:;] rebuild the job"):
        backfilling.ask()


@pytest.mark.parametrize(
    "less",
    [
        BackfillState(epoch=1, vnodes=(Completed(None, 7),) * 4),
        BackfillState(epoch=2, vnodes=(Completed(None, 6),) * 4),
        BackfillState(epoch=2, vnodes=(InProgress((6,), 7),) * 4),
    ],
)
def test_a_state_that_says_less_than_the_newest_commit_is_refused(lake, less):
    """I6: an earlier epoch, fewer rows, or vnodes that are not completed; each by itself."""
    backfilling = over(lake, *range(7), rate_limit=4)
    backfilling.finish()
    settings = backfilling.store.settings()
    table = ControlTable(f"{backfilling.job.state}/vnode_state", records.state_schema(settings.key_order))
    rows = records.state_rows(less, settings.incarnation, settings.key_order)
    table.update(lambda _: Write(rows, "overwrite"))
    backfilling.orders.add(20)
    with pytest.raises(StateError, match="it was restored or changed[:;] rebuild the job"):
        backfilling.ask()
