"""The epoch protocol's control tables in an object store: two writers at once, and one of them wins."""

from __future__ import annotations

import datetime as dt
import threading

import pyarrow as pa
import pytest

from airflow_backfill_provider import protocol
from airflow_backfill_provider.core.application import ServerSession
from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.jobs.backfill import Backfill
from airflow_backfill_provider.sources.delta.versions import offset_of
from airflow_backfill_provider.state.applications import ApplicationRecords
from airflow_backfill_provider.state.control_table import ControlTable, Write
from tests.integration.object_store.no_engine import NoEngine, inject, make_view

pytestmark = pytest.mark.slow


def test_a_job_goes_to_its_end_in_a_bucket(s3, job):
    """Issue part 7."""
    backfill = Backfill(job, s3.options)
    make_view(backfill)
    statuses = []
    while not statuses or not statuses[-1].finished:
        protocol.run_epoch(inject(backfill, "somebody"), store=backfill.store, engine=NoEngine())
        statuses.append(backfill.status())
    assert [status.rows_read for status in statuses] == [40, 80, 120]
    assert [status.warnings for status in statuses] == [(), (), ()]
    assert f"_backfill/{job.name}/barrier_log/_delta_log/" in s3.listing()


def test_a_writer_that_was_overtaken_decides_again(s3):
    """The commit with the same version fences: here the other writer commits first."""
    schema = pa.schema([("n", pa.int64())])
    mine, other = (ControlTable(f"{s3.root}/table", schema, s3.options) for _ in range(2))
    mine.create()
    seen = []

    def row(n: int) -> Write:
        return Write(pa.table({"n": pa.array([n], pa.int64())}))

    def decide(rows: pa.Table) -> Write | None:
        seen.append(rows.num_rows)
        if len(seen) == 1:
            other.update(lambda _: row(1))
        return row(2) if len(seen) < 3 else None

    mine.update(decide)
    assert seen == [0, 1]
    assert sorted(other.read().column("n").to_pylist()) == [1, 2]


def test_two_injectors_the_slower_one_adopts_the_barrier(s3, job):
    """I2: the other one pins while this one plans."""
    backfill, barriers = Backfill(job, s3.options), []

    def overtaken():
        barriers.append(inject(Backfill(job, s3.options), "faster"))
        return barriers[0].injected_at

    barriers.append(inject(backfill, "slower", clock=overtaken))
    assert barriers[0] == barriers[1]
    assert barriers[1].injected_by.user == "faster"
    assert len(backfill.store.barriers()) == 1


def test_two_runs_of_an_epoch_one_commits(s3, job):
    """I5: the other one commits before this one does."""
    backfill = Backfill(job, s3.options)
    barrier = inject(backfill, "somebody")
    first = []

    def overtaken():
        other = Backfill(job, s3.options)
        first.append(protocol.run_epoch(barrier, store=other.store, engine=NoEngine()))
        return barrier.injected_at

    commit = protocol.run_epoch(barrier, store=backfill.store, engine=NoEngine(), clock=overtaken)
    assert commit == first[0], "the first one wins"
    assert backfill.store.commits() == [commit]
    assert backfill.store.state().epoch == 1


def test_writers_at_the_same_instant_agree(s3, job):
    """I2, I5: in every order of requests, each epoch is pinned once and committed once."""
    together = threading.Barrier(2)
    agreed: list[list[Barrier]] = [[], []]

    def run(number: int) -> None:
        backfill = Backfill(job, s3.options)
        for _ in range(3):
            together.wait(timeout=120)
            barrier = inject(backfill, f"writer {number}")
            agreed[number].append(barrier)
            together.wait(timeout=120)
            protocol.run_epoch(barrier, store=backfill.store, engine=NoEngine())

    threads = [threading.Thread(target=run, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    store = Backfill(job, s3.options).store
    assert agreed[0] == agreed[1] == store.barriers()
    assert [commit.epoch for commit in store.commits()] == [1, 2, 3]
    assert store.state().completed


def test_the_store_says_when_versions_were_committed(s3, job):
    """A listing has the times of all commit files."""
    upstream = Backfill(job, s3.options).upstream
    now, hour = dt.datetime.now(dt.UTC), dt.timedelta(hours=1)
    assert now - hour < upstream.watermark(offset_of(0)) < now + hour
    assert [upstream.offset_at(instant) for instant in (now - hour, now + hour)] == [None, offset_of(0)]


def test_the_record_of_an_application_is_replaced_and_removed(s3):
    records = ApplicationRecords(f"{s3.root}/records", s3.options)
    for port in (1, 2):
        session = ServerSession(server=f"127.0.0.1:{port}", user_id="u", session_id="s")
        records.write_session("epoch", session)
        assert records.session("epoch") == session
    records.forget_session("epoch")
    assert records.session("epoch") is None


def test_task_runs_that_wait_for_an_application_are_noted_in_a_bucket(s3):
    records = ApplicationRecords(f"{s3.root}/waited/state", s3.options)
    assert records.others_waiting("epoch-1", "me") == []
    for token, waiter in (("t1", "me"), ("t2", "d.t of run 2")):
        records.begin_wait("epoch-1", token, waiter)
    assert records.others_waiting("epoch-1", "me") == ["d.t of run 2"]
    records.end_wait("epoch-1", "t2")
    assert records.others_waiting("epoch-1", "me") == []
