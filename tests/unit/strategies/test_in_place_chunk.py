"""How many rows a barrier plans to read: never more than the rate limit allows, and some as long as any are left."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest

from airflow_backfill_provider.core.scan.keys import KeyField
from airflow_backfill_provider.jobs import mutations
from airflow_backfill_provider.jobs.planning.plan import make_plan
from airflow_backfill_provider.lake.files.vnode_hash import vnodes_of
from airflow_backfill_provider.lake.tables import window_changes
from tests.deletion_vectors import actions_of, added_in, hide, write_actions
from tests.property.backfilling import Backfilling
from tests.variants import mostly_exhaustive

pytestmark = pytest.mark.slow  # whole epochs through Delta tables

MUCH_MORE = 1.1
"""I4: the rate limit is a cap, within a tenth."""


def reads_of(backfilling, change=lambda epoch: None, most=200):
    """The rows that each epoch reads, to the end; before each the upstream may change."""
    reads = []
    for epoch in range(most):
        change(epoch)
        barrier = backfilling.ask().barrier
        if barrier is None:
            break
        commit = backfilling.run(barrier)
        if barrier.parts:
            reads.append(commit.snapshot_read_row_count)
        if commit.completed:
            break
    else:
        raise AssertionError(f"I4: not finished after {most} epochs: {reads}")
    backfilling.assert_truth()
    return reads


def assert_kept(reads, rate_limit):
    assert max(reads) <= MUCH_MORE * rate_limit, reads
    assert min(reads) >= 1, reads


def arranged(lake, rows, *, rate_limit, vnode_count=4, files=1, **job):
    made = Backfilling(lake, strategy="arrangement", vnode_count=vnode_count, rate_limit=rate_limit, **job)
    for number in range(files):
        made.orders.add(*range(number * rows // files, (number + 1) * rows // files))
    made.create()
    return made


# --- changes that are concentrated ----------------------------------------------------------------


@pytest.mark.exhaustive
def test_updates_of_one_range_of_keys_do_not_make_chunks_larger(lake):
    """Half of a vnode's rows changed, all in its first files."""
    made = arranged(lake, 60, rate_limit=12, vnode_count=1)
    mutations.pause_job(store=made.store, requested_by="x")
    made.orders.change(range(30), amount=7)
    made.epoch()
    mutations.resume_job(store=made.store, requested_by="x")
    assert_kept(reads_of(made), 12)


def test_rows_that_one_window_inserts_into_one_vnode_do_not_make_its_chunk_larger(lake):
    made = arranged(lake, 60, rate_limit=10, distribution_key=["status"], vnode_count=4)

    def insert(epoch):
        if epoch == 2:
            made.orders.add(*range(1000, 1040), *range(-40, 0), status="paid")

    assert_kept(reads_of(made, insert), 10)


def test_rows_that_come_while_changes_wait_do_not_make_the_last_chunks_larger(lake):
    """They come into the arrangement with the first epoch that would complete it."""
    made = arranged(lake, 60, rate_limit=10, vnode_count=1, visibility="on_finish")

    def insert(epoch):
        if epoch == 2:
            made.orders.add(*range(1000, 1040))
        elif epoch == 4:
            made.orders.remove(*range(1000, 1010))

    assert_kept(reads_of(made, insert), 10)


@pytest.mark.exhaustive
def test_rows_that_move_to_another_vnode_do_not_make_its_chunk_larger(lake):
    made = arranged(lake, 80, rate_limit=15, distribution_key=["status"], vnode_count=8)
    made.orders.change(range(0, 80, 2), status="new")

    def move(epoch):
        if epoch < 4:
            made.orders.change(range(epoch, 80, 4), status=("new", "void", "paid")[epoch % 3])

    assert_kept(reads_of(made, move), 15)


def test_a_window_that_deletes_what_comes_next_leaves_no_epoch_without_rows(lake):
    made = arranged(lake, 80, rate_limit=8, vnode_count=2)

    def delete(epoch):
        if epoch == 1:
            made.orders.remove(*range(60))

    reads = reads_of(made, delete)
    assert_kept(reads, 8)
    assert len(reads) <= 1 + math.ceil(20 / 8)


@pytest.mark.parametrize("seed", mostly_exhaustive(range(3), [0]))
def test_whatever_changes_an_arrangement_is_read_within_the_rate_limit(lake, seed):
    made = arranged(lake, 60, rate_limit=10, vnode_count=2)

    def change(epoch):
        first = (epoch * 17 + seed * 11) % 60
        some = [row for row in range(first, first + 20) if row in made.orders.rows]
        if epoch % 3 == 0:
            made.orders.add(*range(1000 + 25 * epoch, 1025 + 25 * epoch))
        elif epoch % 3 == 1 and some:
            made.orders.remove(*some)
        else:
            made.orders.change(some, amount=epoch)

    reads = []
    for epoch in range(5):
        change(epoch)
        reads.append(made.epoch().snapshot_read_row_count)
    assert reads == [10] * 5


# --- windows with unknown changes -----------------------------------------------------------------


def test_a_window_of_unknown_inserts_leaves_room_for_them(lake, monkeypatch):
    """The earlier rows are a quarter of the present ones, and lie among them."""
    made = Backfilling(lake, strategy="arrangement", vnode_count=4, rate_limit=8)
    made.orders.add(*range(0, 400, 4))
    made.create()
    monkeypatch.setattr(window_changes, "MOST_CHANGES", 0)
    made.orders.add(*(number for number in range(400) if number % 4))
    assert 1 <= made.epoch().snapshot_read_row_count <= 2 * 8


def test_however_many_rows_a_window_inserts_one_is_read(lake, monkeypatch):
    made = arranged(lake, 4, rate_limit=1, vnode_count=2)
    monkeypatch.setattr(window_changes, "MOST_CHANGES", 0)
    made.orders.add(*range(1000, 1100))
    assert made.inject().parts != ()


# --- rows that do not exist -----------------------------------------------------------------------


@pytest.mark.exhaustive
@pytest.mark.parametrize("rate_limit", [1, 3, 10])
def test_a_job_over_some_vnodes_reads_its_own_rows_in_as_many_epochs_as_planned(lake, rate_limit):
    made = Backfilling(
        lake, strategy="no_shuffle", vnode_count=16, restrict_to={"vnodes": [3, 4]}, rate_limit=rate_limit
    )
    for start in range(0, 320, 40):
        made.orders.add(*range(start, start + 40))
    planned = make_plan(made.backfill)
    made.create()
    reads = reads_of(made)
    assert_kept(reads, rate_limit)
    assert len(reads) <= 1.5 * planned.epochs + 1
    assert planned.estimates["no_shuffle"].epochs == planned.epochs


def test_rows_of_some_vnodes_that_lie_far_apart_leave_no_epoch_without_rows(lake):
    """Vnodes come from another column than the key, and the job's rows are the last ones."""
    made = Backfilling(
        lake, strategy="no_shuffle", distribution_key=["status"], vnode_count=64, restrict_to={"vnodes": [0]}
    )
    made.orders.add(*range(100), status="paid")
    made.orders.add(*range(100, 110), status="new")
    paid, new = vnodes_of(pa.table({"s": ["paid", "new"]}), [KeyField(name="s", type="string")], 64).to_pylist()
    assert paid != new
    made.create(restrict_to={"vnodes": [new]})
    assert reads_of(made) == [3, 3, 3, 1]


def hidden_from(lake, strategy):
    """A job over three files of twenty rows, of which deletion vectors hide three quarters, the first ones."""
    made = Backfilling(lake, strategy=strategy, rate_limit=4, vnode_count=2)
    for start in range(0, 60, 20):
        made.orders.add(*range(start, start + 20))
    for version in range(3):
        hide(made.orders.path, added_in(made.orders.path, version), range(15))
    return made


@pytest.mark.parametrize("strategy", ["no_shuffle", "arrangement"])
def test_rows_that_deletion_vectors_hide_are_not_planned_for(lake, strategy):
    made = hidden_from(lake, strategy)
    assert make_plan(made.backfill).epochs == 4
    made.create()
    assert reads_of(made) == [4, 4, 4, 3]


def test_rows_that_a_deletion_vector_hides_in_the_window_are_not_planned_for(lake):
    made = arranged(lake, 40, rate_limit=5, vnode_count=1)

    def remove(epoch):
        if epoch == 1:
            hide(made.orders.path, added_in(made.orders.path, 0), range(5, 30))

    assert reads_of(made, remove) == [5, 5, 5]


# --- counts that are missing ----------------------------------------------------------------------


@pytest.mark.exhaustive
@pytest.mark.parametrize("strategy", ["no_shuffle", "arrangement"])
def test_a_table_whose_log_counts_no_row_is_planned_as_any_other(lake, strategy):
    made = Backfilling(lake, strategy=strategy, rate_limit=6, vnode_count=2)
    made.orders.add(*range(12))
    made.orders.add(*range(12, 24))
    for version in range(2):
        actions = actions_of(made.orders.path, version)
        for action in actions:
            action.get("add", {}).pop("stats", None)
        write_actions(made.orders.path, version, *actions)
    assert make_plan(made.backfill).epochs == 4
    made.create()
    commit = made.epoch()
    assert (commit.snapshot_read_row_count, made.backfill.status().progress) == (6, 0.25)
    assert reads_of(made) == [6, 6, 6]


# --- parallel task runs ---------------------------------------------------------------------------
