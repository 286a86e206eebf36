"""When the watcher of an upstream fires, and when it does not."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import logging
import shutil
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from airflow.sdk._shared.module_loading import import_string

from airflow_backfill_provider import protocol
from airflow_backfill_provider.core.errors import StorageUnavailableError
from airflow_backfill_provider.jobs import mutations, succession
from airflow_backfill_provider.jobs.backfill import Backfill
from airflow_backfill_provider.lake.log.delta_log import DeltaLog
from airflow_backfill_provider.lake.log.version_watch import VersionWatch
from airflow_backfill_provider.sources.delta.versions import offset_of
from airflow_backfill_provider.triggers import upstream
from airflow_backfill_provider.triggers.upstream import UpstreamCommit, UpstreamCommitTrigger
from tests.builders import commit_file, committed_at
from tests.plain_engine import CountingEngine, make
from tests.unit.stand_in import ROWS, SOMEBODY, Lake

pytestmark = pytest.mark.slow  # whole epochs through Delta tables

Step = Callable[[], Any]


def trigger(lake: Lake, **fields: Any) -> UpstreamCommitTrigger:
    arguments = {"backfill_conn_id": "airflow_backfill_default", "poll_interval": 0.01, **fields}
    return UpstreamCommitTrigger(job=lake.definition, **arguments)


def events(lake: Lake, *steps: Step, watcher: UpstreamCommitTrigger | None = None) -> list[list[str]]:
    """Let a watcher look after each step, twice, and return the reasons of what it fired after each."""
    watcher = watcher or trigger(lake)
    fired: list[list[str]] = []

    async def looks() -> AsyncIterator[UpstreamCommit]:
        for step in steps:
            await asyncio.to_thread(step)
            fired.append([])
            latest = lake.backfill.upstream.latest()
            for _ in range(2):
                yield UpstreamCommit(latest, "2026-01-01T00:00:00+00:00")

    async def collect() -> None:
        async for event in watcher.filter_shared_stream(looks()):
            fired[-1].append(event.payload["reason"])

    asyncio.run(collect())
    return fired


def first_events(watcher: UpstreamCommitTrigger, count: int, between: Step) -> list[dict[str, Any]]:
    """Return the first events of a watcher that looks by itself, with a step after each of them."""

    async def collect() -> list[dict[str, Any]]:
        collected: list[dict[str, Any]] = []
        async for event in watcher.run():
            collected.append(event.payload)
            if len(collected) == count:
                return collected
            await asyncio.to_thread(between)
        return collected

    return asyncio.run(asyncio.wait_for(collect(), timeout=20))


def nothing() -> None:
    """Do nothing, and look again."""


def test_a_backfill_is_driven_to_its_end_without_commits_and_by_commits_from_then_on(orders: Lake):
    version = "the upstream's newest offset is 4, and the epochs have read up to 3"
    snapshot = "the snapshot has unread rows"

    assert events(
        orders,
        nothing,
        orders.create,
        lambda: orders.epochs(1),
        orders.inject,
        lambda: orders.epochs(1),
        lambda: orders.epochs(1),
        lambda: orders.append([ROWS]),
        lambda: orders.epochs(1),
    ) == [
        ["the job is not created yet"],
        [],
        [snapshot],
        [],
        [snapshot],
        [],
        [version],
        [],
    ]


def test_a_commit_while_no_watcher_runs_fires_after_the_restart(created: Lake):
    created.finish()
    assert events(created, nothing) == [[]]

    created.append([ROWS])

    assert events(created, nothing) == [["the upstream's newest offset is 4, and the epochs have read up to 3"]]


def test_compaction_fires_once_and_is_then_covered(created: Lake):
    created.finish()

    def compact() -> None:
        from deltalake import DeltaTable

        DeltaTable(created.backfill.job.upstream.location).optimize.compact()

    def run() -> None:
        from airflow_backfill_provider import protocol
        from tests.unit.stand_in import SOMEBODY

        backfill = created.backfill
        assert not protocol.inject_barrier(store=backfill.store, upstream=backfill.upstream, requester=SOMEBODY).barrier

    assert [len(fired) for fired in events(created, nothing, compact, run)] == [0, 1, 0]


def test_a_paused_job_waits_for_commits_and_goes_on_when_it_is_resumed(created: Lake):
    store = created.backfill.store

    assert events(
        created,
        lambda: created.epochs(1),
        lambda: mutations.pause_job(store=store, requested_by="somebody"),
        lambda: mutations.resume_job(store=store, requested_by="somebody"),
        created.cancel,
    ) == [["the snapshot has unread rows"], [], ["the snapshot has unread rows"], []]


@pytest.mark.exhaustive
def test_a_rebuild_beside_the_view_is_driven_to_its_end_and_to_the_views_place(created: Lake):
    created.finish()
    protocol.finish_job(store=created.backfill.store, requested_by="x")
    growing = "a rebuild grows beside the view: "

    def epoch() -> None:
        job = created.backfill.successor
        assert job is not None
        run_next(job)

    assert events(
        created,
        lambda: make(created.backfill, succession.grow_successor),
        epoch,
        epoch,
        epoch,
        lambda: run_next(created.backfill),
    ) == [
        [growing + "the snapshot has unread rows"],
        [growing + "the snapshot has unread rows"],
        [growing + "the snapshot has unread rows"],
        ["the rebuild is finished and can take the view's place"],
        [],
    ]


def run_next(job: Backfill) -> None:
    """Run a job's next epoch."""
    protocol.run_next_epoch(
        store=job.store, upstream=job.upstream, requester=SOMEBODY, engine=lambda _: CountingEngine()
    )


def test_control_tables_are_read_only_when_they_changed(created: Lake, monkeypatch):
    from airflow_backfill_provider.jobs.backfill import Backfill

    reads = iter(range(10))
    settings = Backfill.settings
    monkeypatch.setattr(Backfill, "settings", lambda self: (next(reads), settings(self))[1])

    events(created, nothing, nothing, lambda: created.epochs(1))

    assert next(reads) == 2


def test_an_event_says_what_was_committed_and_when(created: Lake):
    created.finish()
    created.append([ROWS])

    (event,) = first_events(trigger(created), 1, nothing)

    assert event == {
        "job": "small_orders",
        "upstream": f"{created.folder}/orders",
        "version": 4,
        "timestamp": created.backfill.upstream.watermark(offset_of(4)).isoformat(),
        "reason": "the upstream's newest offset is 4, and the epochs have read up to 3",
    }


def test_looks_go_on_by_themselves(created: Lake):
    fired = first_events(trigger(created), 3, lambda: created.epochs(1))

    assert [event["version"] for event in fired] == [3, 3, 3]


def test_an_upstream_that_is_not_there_yet_is_waited_for(orders: Lake, monkeypatch):
    shutil.rmtree(orders.folder / "orders")
    warned = threading.Event()
    monkeypatch.setattr(upstream.log, "warning", lambda *_: warned.set())

    async def scenario() -> dict[str, Any]:
        waiting = asyncio.ensure_future(anext(trigger(orders).run()))
        assert await asyncio.to_thread(warned.wait, 10)
        await asyncio.to_thread(orders.append, [1])
        return (await waiting).payload

    assert asyncio.run(asyncio.wait_for(scenario(), timeout=20))["version"] == 0


def test_an_outage_is_logged_once_and_survived(created: Lake, monkeypatch, caplog):
    latest, outages = VersionWatch.latest, iter(range(5))

    def look(watch: VersionWatch) -> int | None:
        if next(outages, None) is not None:
            raise StorageUnavailableError("the lake cannot be reached")
        return latest(watch)

    monkeypatch.setattr(VersionWatch, "latest", look)

    assert first_events(trigger(created), 1, nothing)
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


def test_an_outage_that_comes_back_is_logged_again(created: Lake, monkeypatch, caplog):
    latest, outages = VersionWatch.latest, iter([True, False, True, False])

    def look(watch: VersionWatch) -> int | None:
        if watch.log.location == created.backfill.job.upstream.location and next(outages, False):
            raise StorageUnavailableError("the lake cannot be reached")
        return latest(watch)

    monkeypatch.setattr(VersionWatch, "latest", look)

    assert first_events(trigger(created), 2, lambda: created.epochs(1))
    assert [record.levelno for record in caplog.records] == [logging.WARNING] * 2


def test_a_connection_that_was_corrected_is_read_again(created: Lake, connection, tmp_path):
    """The error may have been in the location of the control tables."""
    shutil.copytree(created.folder / "_backfill", tmp_path / "elsewhere")
    for file in (tmp_path / "elsewhere" / "small_orders" / "settings").rglob("*.parquet"):
        file.write_bytes(b"no parquet")
    conn_id = connection(extra=json.dumps({"state_root": str(tmp_path / "elsewhere")}))

    def correct() -> None:
        connection(extra=json.dumps({"state_root": f"{created.folder}/_backfill"}))

    fired = events(created, nothing, correct, nothing, watcher=trigger(created, backfill_conn_id=conn_id))

    assert [len(reasons) for reasons in fired] == [0, 1, 0]


def test_damaged_control_tables_and_a_missing_connection_do_not_end_the_watch(created: Lake, caplog):
    def damage() -> None:
        for file in (created.folder / "_backfill" / "small_orders" / "settings").rglob("*.parquet"):
            file.write_bytes(b"no parquet")

    assert events(created, damage) == [[]]
    assert events(created, nothing, watcher=trigger(created, backfill_conn_id="nowhere")) == [[]]
    assert [record.message.partition(":")[0] for record in caplog.records] == [
        "cannot read job small_orders, trying again"
    ] * 2
    assert "there is no connection nowhere" in caplog.text


def test_jobs_on_one_upstream_share_their_looks(created: Lake):
    other = Lake(created.folder, {"name": "others", "materialized_view": f"{created.folder}/others"})
    elsewhere = Lake(created.folder, {"upstream": {"path": f"{created.folder}/elsewhere", "key": ["order_id"]}})

    assert trigger(created).shared_stream_key() == trigger(other).shared_stream_key()
    assert trigger(created).shared_stream_key() != trigger(elsewhere).shared_stream_key()
    assert trigger(created).shared_stream_key() != trigger(created, poll_interval=5).shared_stream_key()
    assert trigger(created).shared_stream_key() != trigger(created, backfill_conn_id="lake").shared_stream_key()


def test_a_named_upstream_is_watched_where_its_job_found_it(orders: Lake):
    """Before the job is created there is no location, and an event starts the DAG that creates it."""
    table = {"table": "prod.sales.orders", "key": ["order_id"]}
    named = Lake(orders.folder, {"upstream": table})
    other = Lake(orders.folder, {"upstream": table, "name": "others", "materialized_view": f"{orders.folder}/others"})
    placed = Lake(orders.folder, {"upstream": {**table, "path": f"{orders.folder}/orders"}})

    fired = first_events(trigger(named), 2, placed.create)

    assert fired[0]["reason"] == "the job is not created yet"
    assert fired[1]["version"] == orders.backfill.upstream.latest().root
    assert trigger(named).shared_stream_key() != trigger(other).shared_stream_key()


def test_a_watcher_is_made_again_from_what_it_serializes_and_takes_no_secret_along(created: Lake, connection):
    conn_id = connection(extra=json.dumps({"storage_options": {"AWS_SECRET_ACCESS_KEY": "hush-hush"}}))
    made = trigger(created, backfill_conn_id=conn_id)
    assert first_events(made, 1, nothing)

    assert made.serialize()[1] == {"job": created.definition, "backfill_conn_id": conn_id, "poll_interval": 0.01}
    written = json.dumps(made.serialize())

    classpath, arguments = json.loads(written)
    assert import_string(classpath)(**arguments).serialize() == made.serialize()
    assert "hush" not in written


def test_a_restored_upstream_fires_once_for_the_epoch_that_refuses_it(created: Lake):
    """I6: epochs cover its newest version, so nothing else would start one."""
    created.finish()

    def restore() -> None:
        log = DeltaLog(str(created.folder / "orders"))
        commit_file(log.location, log.versions()[-1]).unlink()

    fired = events(created, nothing, restore)

    assert [len(reasons) for reasons in fired] == [0, 1]
    assert "ends with version 2, but the job has read up to version 3" in fired[1][0]


def test_an_upstream_that_was_created_again_with_as_many_versions_fires(created: Lake):
    created.finish()
    watcher = trigger(created)
    committed_at(created.folder / "orders", 3, dt.datetime(2020, 1, 1, tzinfo=dt.UTC))

    (event,) = first_events(watcher, 1, nothing)

    assert "version 3" in event["reason"]
    assert "written at 2020-01-01" in event["reason"]


def test_a_version_that_is_pinned_between_the_two_looks_is_no_replaced_upstream(created: Lake):
    created.finish()
    watch = upstream._JobWatch(created.definition, "airflow_backfill_default")
    earlier = UpstreamCommit(offset_of(2), "2026-01-01T00:00:00+00:00")

    assert watch.demand(earlier) is None
