"""Creating and rebuilding a job with an arrangement, and what becomes of the arrangement."""

from __future__ import annotations

import pytest
from deltalake import DeltaTable

from airflow_backfill_provider import protocol
from airflow_backfill_provider.core.epoch import crash_points
from airflow_backfill_provider.core.epoch.barrier import decoded
from airflow_backfill_provider.core.epoch.crash_points import CrashPoint
from airflow_backfill_provider.core.errors import StateError
from airflow_backfill_provider.core.scan.columns import OwnColumns
from airflow_backfill_provider.jobs import creation, mutations
from airflow_backfill_provider.strategies.arrangement.files import ArrangementFiles
from airflow_backfill_provider.strategies.arrangement.location import location_of
from tests.builders import commit_file
from tests.dying import Died, dies_at
from tests.plain_source import PlainSource
from tests.property.backfilling import Backfilling
from tests.unit.jobs.creation_helpers import _die
from tests.variants import exhaustive

pytestmark = pytest.mark.slow  # whole epochs through Delta tables


@pytest.fixture
def arranging(lake):
    """A job over ten orders with a position per vnode, not created yet, five rows an epoch."""
    made = Backfilling(lake, rate_limit=5, strategy="arrangement", distribution_key=("amount", "id"))
    made.orders.add(*range(10))
    return made


def arrangement(backfilling):
    return ArrangementFiles(location_of(backfilling.store.settings()))


def test_creating_makes_the_arrangement_of_the_version_that_was_read(arranging):
    arranging.orders.add(10)
    settings = arranging.create()
    assert (settings.strategy, settings.first_offset.number) == ("arrangement", 1)
    assert arrangement(arranging).exists()
    assert creation.is_created(arranging.job, arranging.store)
    barrier = arranging.inject()
    assert (barrier.upstream.from_offset.number, barrier.upstream.to_offset.number) == (1, 1)
    arranging.finish()
    assert len(arranging.rows()) == 11


def test_what_happens_between_the_arrangement_and_the_first_epoch_is_not_lost(arranging):
    """I1: the first window begins where the arrangement was made."""
    arranging.create()
    arranging.orders.change([3, 4], amount=7)
    arranging.orders.remove(5)
    arranging.orders.rekey({6: 60})
    arranging.finish_watched()
    assert sorted(row[0] for row in arranging.rows()) == [0, 1, 2, 3, 4, 7, 8, 9, 60]


def test_an_empty_upstream_is_arranged_and_completes_at_once(lake):
    """docs/concepts/rules.md#no-position-is-not-the-null-key."""
    backfilling = Backfilling(lake, strategy="arrangement")
    backfilling.orders.add()
    backfilling.create()
    assert [commit.completed for commit in backfilling.finish()] == [True]
    backfilling.orders.add(5, None)
    backfilling.finish()
    assert [row[0] for row in backfilling.rows()] == [None, 5]


@pytest.mark.parametrize(
    ("point", "repair"),
    [
        exhaustive(CrashPoint.BEFORE_ARRANGEMENT_COMMIT, "create"),
        exhaustive(CrashPoint.BEFORE_ARRANGEMENT_COMMIT, "rebuild"),
        (CrashPoint.BEFORE_ARRANGEMENT_COMMIT, "epoch"),
        exhaustive(CrashPoint.AFTER_ARRANGEMENT_COMMIT, "create"),
        (CrashPoint.AFTER_ARRANGEMENT_COMMIT, "rebuild"),
        exhaustive(CrashPoint.AFTER_ARRANGEMENT_COMMIT, "epoch"),
    ],
)
def test_a_creation_that_died_around_the_arrangement_is_completed(arranging, point, repair):
    """I2: by creating again, by rebuilding, or by the next epoch, whatever was written meanwhile."""

    with dies_at(point):
        arranging.create()
    assert arrangement(arranging).exists() is (point is CrashPoint.AFTER_ARRANGEMENT_COMMIT)
    arranging.orders.change([3], amount=7)
    arranging.orders.add(30)
    if repair != "epoch":
        getattr(arranging, repair)()
        assert arrangement(arranging).exists()
    arranging.finish_watched()
    assert len(arranging.rows()) == 11


@pytest.mark.exhaustive
def test_a_rebuild_that_slept_through_another_one_leaves_its_arrangement_alone(arranging):
    """I5: chunks are read from it already."""
    arranging.create()
    arranging.epoch()

    def overtaken(reached):
        if reached is CrashPoint.AFTER_ARRANGEMENT_COMMIT:
            crash_points.install(None)
            arranging.rebuild()
            arranging.epoch()

    crash_points.install(overtaken)
    arranging.rebuild()
    assert arrangement(arranging).exists()
    arranging.finish_watched()


def test_a_creation_that_died_before_the_arrangement_is_completed_by_an_epoch_that_has_nothing_else_to_do(arranging):
    """I4: until it is made there is nothing to read, and no new version requests an epoch."""

    with dies_at(CrashPoint.BEFORE_ARRANGEMENT_COMMIT):
        arranging.create()
    first = arranging.inject()
    assert (first.parts, first.has_window) == ((), False)
    arranging.run(first)
    assert arrangement(arranging).exists()
    arranging.finish_watched()
    assert len(arranging.rows()) == 10


def test_a_rebuild_leaves_one_arrangement(arranging):
    arranging.create()
    arranging.epoch()
    before = arrangement(arranging)
    arranging.orders.add(30)
    arranging.rebuild()
    assert not before.exists()
    assert arrangement(arranging).exists()
    arranging.finish_watched()
    assert len(arranging.rows()) == 11


def test_a_rebuild_that_died_and_was_completed_leaves_one_arrangement(arranging):
    arranging.create()
    before = arrangement(arranging)

    with dies_at(CrashPoint.BEFORE_ARRANGEMENT_COMMIT):
        arranging.rebuild()
    assert before.exists()
    arranging.create()
    assert not before.exists()
    assert arrangement(arranging).exists()


@pytest.mark.parametrize("strategies", [("arrangement", "no_shuffle"), exhaustive(("no_shuffle", "arrangement"))])
def test_a_rebuild_may_change_the_strategy(arranging, strategies):
    first, second = strategies
    arranging.create(strategy=first)
    arranging.epoch()
    arranging.rebuild(strategy=second)
    assert arrangement(arranging).exists() is (second == "arrangement")
    arranging.finish_watched()
    assert len(arranging.rows()) == 10


@pytest.mark.parametrize("keep", [False, exhaustive(True)])
def test_finishing_drops_the_arrangement_unless_it_is_to_be_kept(arranging, keep):
    arranging.create(keep_arrangement=keep)
    arranging.finish()
    assert arrangement(arranging).exists()
    for _ in range(2):
        protocol.finish_job(store=arranging.store, requested_by="x")
        assert arrangement(arranging).exists() is keep
    arranging.orders.change([3], amount=7)
    arranging.orders.add(30)
    arranging.finish()
    assert len(arranging.rows()) == 11


def test_a_lost_arrangement_is_not_created_again(arranging):
    """I6: the version that its rows are of is not known any more."""
    arranging.create()
    arranging.epoch()
    arrangement(arranging).drop()
    with pytest.raises(StateError, match="arrangement of job paid_orders is gone .* restore it, or rebuild the job"):
        arranging.ask()


@pytest.mark.parametrize("repair", [exhaustive("create"), "rebuild"])
def test_an_arrangement_lost_after_an_epoch_was_pinned_is_only_created_again_by_a_rebuild(arranging, repair):
    """I6: the epoch may have read from it, and would then read other rows."""
    arranging.create()
    arranging.inject()
    arrangement(arranging).drop()
    assert creation.is_created(arranging.job, arranging.store)
    getattr(arranging, repair)()
    assert arrangement(arranging).exists() is (repair == "rebuild")


def test_an_arrangement_that_a_rebuild_failed_to_make_is_made_by_creating_again(arranging):
    """I2: the epochs that were pinned before are no reason not to."""
    arranging.create()
    arranging.epoch()

    with dies_at(CrashPoint.BEFORE_ARRANGEMENT_COMMIT):
        arranging.rebuild()
    assert not creation.is_created(arranging.job, arranging.store), "the view is made, the arrangement is not"
    arranging.create()
    assert arrangement(arranging).exists()


def test_finishing_that_died_before_the_arrangement_was_dropped_drops_it_the_next_time(arranging, monkeypatch):
    arranging.create()
    arranging.finish()
    with monkeypatch.context() as patched:
        patched.setattr(ArrangementFiles, "drop", _die)
        with pytest.raises(Died):
            protocol.finish_job(store=arranging.store, requested_by="x")
    assert arrangement(arranging).exists()
    protocol.finish_job(store=arranging.store, requested_by="y")
    assert not arrangement(arranging).exists()


def test_a_chunk_of_an_arrangement_leaves_room_for_what_the_window_inserts(arranging):
    """I4: the rate limit is a cap, and the arrangement's files don't count these rows yet."""
    arranging.create()
    arranging.orders.add(*range(10, 20))
    assert 2 <= arranging.epoch().snapshot_read_row_count <= 5
    arranging.finish_watched()


@pytest.mark.exhaustive
def test_a_chunk_reads_at_least_one_row_however_much_is_inserted(lake):
    """I4."""
    backfilling = Backfilling(lake, rate_limit=1, strategy="arrangement")
    backfilling.orders.add(0)
    backfilling.create()
    backfilling.orders.add(*range(1, 6))
    assert backfilling.epoch().snapshot_read_row_count >= 1
    backfilling.finish_watched()


def test_a_chunk_is_as_large_as_the_rate_limit_if_the_former_number_of_rows_is_unknown(arranging):
    arranging.create()
    arranging.orders.change([3], amount=7)
    DeltaTable(arranging.orders.path).create_checkpoint()
    commit_file(arranging.orders.path, 0).unlink()
    (part,) = arranging.inject().parts
    rows = arrangement(arranging).statistics(arranging.store.settings().scan.order, 0, OwnColumns())
    files, keys = rows
    order = arranging.store.settings().scan.order
    planned = sum(keys.count(file, covered) for file in files for covered in decoded(part.ranges, order))
    assert planned == 5


@pytest.mark.exhaustive
def test_task_runs_keep_their_vnodes_until_one_is_idle_while_another_has_some_to_spare(lake):
    """A task run that keeps its vnodes has their files in its caches."""
    backfilling = Backfilling(lake, rate_limit=16, strategy="arrangement", parallelism=2, vnode_count=8)
    backfilling.orders.add(*range(40))
    backfilling.create()
    backfilling.epoch()
    # A new division would move the boundary to these.
    backfilling.orders.add(*(i for i in range(40, 300) if vnode_of(backfilling, i) == 6))
    mutations.pause_job(store=backfilling.store, requested_by="x")
    backfilling.epoch()
    mutations.resume_job(store=backfilling.store, requested_by="x")
    backfilling.finish()
    ranges = [barrier.vnode_ranges for barrier in backfilling.store.barriers()]
    assert ranges == [*[((0, 3), (4, 7))] * 4, *[((0, 6), (7, 7))] * 2]


def vnode_of(backfilling, i):
    return PlainSource(backfilling.store.settings(), lambda _: []).vnode_of({"id": i})
