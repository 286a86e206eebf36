"""Creating a job whose view is an existing table: what is compared, pinned, refused and requested."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from airflow_backfill_provider import protocol
from airflow_backfill_provider.core.epoch.repair import Repair
from airflow_backfill_provider.core.epoch.settings import SettingsChange
from airflow_backfill_provider.core.errors import (
    AdoptedTableDiffersError,
    InvalidJobError,
    MaterializedViewError,
    UpstreamError,
)
from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.jobs import creation
from airflow_backfill_provider.jobs.adoption import sampled
from airflow_backfill_provider.jobs.backfill import Backfill
from airflow_backfill_provider.jobs.verification import verifier
from airflow_backfill_provider.state.store import BackfillStore
from tests.builders import Orders, job_of
from tests.dying import Died
from tests.plain_engine import CountingEngine
from tests.property.backfilling import TESTER

pytestmark = pytest.mark.slow  # jobs through Delta tables


class Adopting:
    """
    A job over orders in versions 0 to 3, and a table that a nightly job made of them.

    :param missing: keys that comparisons find missing, one list after another.
    """

    def __init__(self, lake):
        self.lake = lake
        self.orders = Orders(lake)
        for ids in (range(3), range(3, 6), range(6, 9), range(9, 12)):
            self.orders.add(*ids)
        self.missing = []
        write_deltalake(f"{lake}/nightly", pa.table({"id": pa.array(range(6), pa.int64())}))

    def backfill(self, *, as_of=2, path=None, **options):
        path = path or f"{self.lake}/nightly"
        upstream = {"path": self.orders.path, "key": ["id"]}
        job = job_of(self.lake, upstream=upstream, backfill_from={"path": path, **options}, as_of=as_of)
        return Backfill(job)

    def create(self, **options):
        backfill = self.backfill(**options)
        return creation.create_job(
            backfill.job,
            store=backfill.store,
            upstream=backfill.upstream,
            engine=lambda: CountingEngine(self.missing),
            requested_by="tester",
        )


@pytest.fixture
def adopting(lake):
    return Adopting(lake)


def first_barrier(backfill):
    return protocol.inject_barrier(store=backfill.store, upstream=backfill.upstream, requester=TESTER).barrier


def test_all_history_counts_as_read_as_of_the_adopted_version(adopting):
    """The first window begins after it, and no chunk is read."""
    settings = adopting.create()
    backfill = adopting.backfill()
    assert (settings.sequence, settings.change, settings.equal_sequence) == (1, SettingsChange.CREATE, 1)
    assert backfill.store.state().completed
    assert (settings.first_window_after, settings.first_rows.version) == (Offset(2), 0)
    barrier = first_barrier(backfill)
    assert (barrier.upstream.from_offset, barrier.upstream.to_offset) == (Offset(2), Offset(3))
    assert (barrier.parts, barrier.completes, barrier.repair) == ((), True, Repair())


def test_a_state_that_a_crash_prevented_is_the_same_one(adopting, monkeypatch):
    """It follows from the settings, so it cannot be that of a job that has read nothing."""

    def die(*_):
        raise Died

    with monkeypatch.context() as patched:
        patched.setattr(BackfillStore, "repair_state", die)
        with pytest.raises(Died):
            adopting.create()
    adopting.create()
    assert adopting.backfill().store.state().completed


def test_an_epoch_is_due_even_if_nothing_has_changed_since(adopting):
    adopting.create(as_of=3)
    barrier = first_barrier(adopting.backfill(as_of=3))
    assert (barrier.upstream.from_offset, barrier.upstream.to_offset) == (Offset(3), Offset(3))


def test_a_time_means_the_newest_version_at_or_before_it(adopting):
    at = adopting.orders.table.watermark(Offset(2))
    assert adopting.create(as_of=at + dt.timedelta(milliseconds=1)).first_window_after == Offset(2)


@pytest.mark.parametrize(
    ("as_of", "message"),
    [
        (4, "the newest version of .* is 3"),
        (dt.datetime(2000, 1, 1, tzinfo=dt.UTC), "has nothing that is as old"),
        (dt.datetime(2200, 1, 1, tzinfo=dt.UTC), "lies in the future"),
    ],
)
def test_a_point_that_the_upstream_does_not_have_is_refused(adopting, as_of, message):
    with pytest.raises(InvalidJobError, match=message):
        adopting.create(as_of=as_of)
    assert not adopting.backfill().store.created()


def test_changes_that_are_gone_are_refused_before_anything_is_written(adopting):
    log = adopting.lake / "orders" / "_delta_log"
    DeltaTable(adopting.orders.path).create_checkpoint()
    for version in range(3):
        (log / f"{version:020d}.json").unlink()
    with pytest.raises(UpstreamError):
        adopting.create(as_of=1)
    assert not adopting.backfill().store.created()


def test_a_table_that_differs_is_refused_with_its_keys_apart_from_the_message(adopting):
    adopting.missing = [["7", "8"]]
    with pytest.raises(AdoptedTableDiffersError, match="2 keys in 1 of 4 compared vnodes") as refused:
        adopting.create()
    assert refused.value.keys == ('missing: ["7"] of vnode 0', 'missing: ["8"] of vnode 0')
    assert not adopting.backfill().store.created()
    assert adopting.create().adopted.is_equal


def test_the_first_epoch_repairs_what_differs_if_the_job_asks_for_it(adopting):
    adopting.missing = [["7"]]
    settings = adopting.create(repair=True)
    assert (settings.repair, settings.repair_sequence, settings.equal_sequence) == (Repair(keys=(("7",),)), 1, 0)
    barrier = first_barrier(adopting.backfill(repair=True))
    assert barrier.repair == Repair(keys=(("7",),))
    assert settings.may_differ(barrier)


def test_keys_that_appear_may_be_there_until_a_verification_finds_all_vnodes_equal(adopting):
    settings = adopting.create(sample=2)
    backfill = adopting.backfill(sample=2)
    barrier = first_barrier(backfill)
    assert (settings.adopted.compared, settings.adopted.vnodes, settings.equal_sequence) == (2, 4, 0)
    assert settings.may_differ(barrier)
    protocol.run_epoch(barrier, store=backfill.store, engine=CountingEngine())
    verifier.verify_job(backfill, engine=lambda: CountingEngine([["7"]]), requester=TESTER, anew=True)
    assert backfill.settings().equal_sequence == 0
    verifier.verify_job(backfill, engine=CountingEngine, requester=TESTER, anew=True)
    known = backfill.settings()
    assert (known.change, known.equal_sequence) == (SettingsChange.FOUND_EQUAL, 2)
    assert known.may_differ(barrier), "an attempt of an epoch decides as the attempts before it"
    assert not known.may_differ(barrier.model_copy(update={"settings_sequence": 2}))


def test_another_definition_is_refused_while_the_table_is_not_adopted(adopting, monkeypatch):
    def die(*_):
        raise Died

    path = job_of(adopting.lake).view_location
    write_deltalake(path, pa.table({"id": pa.array(range(6), pa.int64())}))
    with monkeypatch.context() as patched:
        patched.setattr(CountingEngine, "ensure_tables", die)
        with pytest.raises(Died):
            adopting.create(path=path)
    with pytest.raises(InvalidJobError, match="has no view yet"):
        adopting.create(path=path, as_of=3)
    with pytest.raises(MaterializedViewError, match="holds another table"):
        # The engine in memory adopts nothing, but only an adopted table counts as the job's view.
        adopting.create(path=path)


@pytest.mark.parametrize(("vnodes", "sample", "rows"), [(8, 8, 0), (8, 3, 10), (256, 16, 10**10)])
def test_a_sample_lies_within_the_vnodes_and_has_its_number(vnodes, sample, rows):
    for seed in ("a@1", "b@2", "c@3"):
        steps = sampled(vnodes, sample, rows, seed)
        covered = [vnode for first, last in steps for vnode in range(first, last + 1)]
        assert covered == list(range(covered[0], covered[0] + sample))
        assert set(covered) <= set(range(vnodes))
