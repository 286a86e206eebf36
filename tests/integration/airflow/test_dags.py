"""The DAGs in ``dags/`` from end to end, on real Airflow, Spark and Delta, in the order of a backfill's life."""

from __future__ import annotations

import pytest

from tests.integration.airflow.conftest import Orders

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.timeout(1200)]


def test_a_backfill_lives_through_its_dags(orders: Orders, environment, run_dag):
    """One test, because every step builds on the one before and starts Spark."""
    environment.setenv("AIRFLOW_BACKFILL_BARRIERS", "2")

    first = run_dag("backfill_scheduled")
    assert first.state == "success"
    assert set(first.states.values()) == {"success"}
    one, two = sorted(first.results("backfill.run_epoch", 2), key=lambda summary: summary["epoch"])
    assert (one["rows"], two["rows"], two["finished"]) == (60, 40, True)
    assert first.result("backfill.finish_view")["finished_epoch"] == 2
    assert asset_events() == {
        "paid_orders": [("epoch", 1), ("epoch", 2), ("finished", 2)],
        "paid_orders finished": [("finished", 2)],
    }
    assert orders.view() == orders.expected()

    orders.append({100: 7})
    orders.delete(1)
    throttled = {"job": str(orders.file), "epochs": 2, "mutation": "throttle", "rate_limit": 10}
    by_hand = run_dag("backfill_manual", throttled)
    assert by_hand.state == "success"
    assert by_hand.states["throttle", -1] == "success"
    assert by_hand.states["pause", -1] == "skipped"
    assert by_hand.states["finish_view", -1] == "skipped"
    assert sum(summary["changes"] for summary in by_hand.results("run_epoch", 2)) == 2
    assert {by_hand.name("run_epoch", index) for index in (0, 1)} == {"3", "nothing to do"}
    assert orders.backfill.store.barriers()[-1].rate_limit == 10
    assert orders.view() == orders.expected()

    later = run_dag("backfill_scheduled")
    assert later.state == "success"
    assert later.states["backfill.finish_view", -1] == "skipped"
    assert [summary["epoch"] for summary in later.results("backfill.run_epoch", 2)] == [None, None]
    assert orders.backfill.store.last_epoch() == 3
    assert asset_events()["paid_orders finished"] == [("finished", 2)], "a view is finished once"

    watched = run_dag("backfill_watch")
    assert watched.state == "success"
    assert watched.result("half_way") == {"progress": 1.0, "epoch": 3}
    assert watched.result("view_finished") == {"epoch": 2}
    assert watched.result("report")["finished"] is True

    cancelled = run_dag("backfill_manual", {"job": str(orders.file), "epochs": 3, "mutation": "cancel"})
    assert cancelled.state == "success"
    assert cancelled.states["cancel", -1] == "success"
    assert cancelled.states["run_epoch", -1] == "skipped"
    assert orders.backfill.store.settings().cancelled

    refused = run_dag("backfill_scheduled")
    assert refused.state == "failed"
    assert refused.states["backfill.run_epoch", 0] == "failed"


def test_parallel_task_runs_share_an_epoch(orders: Orders, environment, run_dag, tmp_path):
    """Each task run reads the vnodes that it owns; local tables make their applications take turns."""
    environment.setenv("AIRFLOW_BACKFILL_BARRIERS", "1")
    orders.define(
        name="shared_orders",
        materialized_view=str(tmp_path / "shared orders"),
        strategy="arrangement",
        parallelism=2,
        rate_limit=None,
    )
    run = run_dag("backfill_scheduled")
    assert run.state == "success"
    assert (
        run.states["backfill.epoch_1.read_snapshot", 0] == run.states["backfill.epoch_1.read_snapshot", 1] == "success"
    )
    parts = run.results("backfill.epoch_1.read_snapshot", 2)
    summary = run.result("backfill.epoch_1.summary")
    assert summary["rows"] == sum(part["rows"] for part in parts)
    assert summary["finished"]
    assert run.name("backfill.epoch_1.read_snapshot", 1) == "epoch 1, part 1"
    assert run.result("backfill.finish_view")["finished_epoch"] == 1
    assert orders.view() == orders.expected()
    orders.define()


def asset_events() -> dict[str, list[tuple[str, int]]]:
    """Return what the events of each asset say so far: what happened, and as of which epoch."""
    from airflow.models.asset import AssetEvent
    from airflow.utils.session import create_session

    told: dict[str, list[tuple[str, int]]] = {}
    with create_session() as session:
        for event in session.query(AssetEvent).order_by(AssetEvent.id):
            told.setdefault(event.asset.name, []).append((event.extra["event"], event.extra["epoch"]))
    return told
