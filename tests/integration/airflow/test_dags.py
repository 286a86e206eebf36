"""The DAGs in ``dags/`` from end to end, on real Airflow, Spark and Delta, in the order of a backfill's life."""

from __future__ import annotations

import subprocess
import sys

import pytest
import yaml
from deltalake import DeltaTable

from tests.integration.airflow.orders import Orders

CLI = "from airflow_backfill_provider.cli.main import app; app()"

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.timeout(1200)]


def ask_for_auto(orders: Orders, run_dag) -> None:
    auto = {"job": str(orders.file), "epochs": 0, "mutation": "auto", "target_epoch_seconds": 30}
    assert run_dag("backfill_manual", auto).states["auto", -1] == "success"
    assert (orders.backfill.store.settings().rate_limit, orders.backfill.store.settings().rate.target) == ("auto", 30)


def test_the_dags_run_a_backfill_from_creation_to_cancellation(orders: Orders, environment, run_dag):
    """One test, because every step builds on the one before and starts Spark."""
    environment.setenv("AIRFLOW_BACKFILL_BARRIERS", "2")

    first = run_dag("backfill_scheduled")
    assert first.state == "success"
    assert [task for (task, _), state in first.states.items() if state != "success"] == ["backfill.run_rebuild"]
    one, two = sorted(first.results("backfill.run_epoch", 2), key=lambda summary: summary["epoch"])
    assert (one["rows"], two["rows"], two["finished"]) == (60, 40, True)
    assert first.result("backfill.finish_view")["finished_epoch"] == 2
    assert asset_events("paid_orders") == [("epoch", 1), ("epoch", 2), ("finished", 2)]
    assert asset_events("paid_orders finished") == [("finished", 2)]
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
    assert asset_events("paid_orders")[-1] == ("epoch", 3)
    assert orders.view() == orders.expected()

    ask_for_auto(orders, run_dag)
    later = run_dag("backfill_scheduled")
    assert later.state == "success"
    assert later.states["backfill.finish_view", -1] == "skipped"
    assert [summary["epoch"] for summary in later.results("backfill.run_epoch", 2)] == [None, None]
    assert orders.backfill.store.last_epoch() == 3
    assert asset_events("paid_orders finished") == [("finished", 2)], "a view is finished once"

    approved = run_dag("backfill_after_approval")
    assert approved.state == "success"
    assert approved.result("approve")["asked"] is False, "what is created is approved"
    followed = run_dag("backfill_on_upstream_commits")
    assert followed.state == "success"
    assert orders.backfill.store.last_epoch() == 3

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


@pytest.mark.exhaustive
@pytest.mark.smoke
def test_a_task_run_runs_several_epochs(orders: Orders, environment, run_dag, tmp_path):
    """One application, and still an event of the view for each epoch."""
    orders.define(name="several_orders", materialized_view=str(tmp_path / "several orders"))

    run = run_dag("backfill_manual", {"job": str(orders.file), "epochs": 5, "epochs_per_run": 5})

    assert run.state == "success"
    assert run.result("run_epoch", 0)["epochs"] == [1, 2]
    assert run.name("run_epoch", 0) == "1 to 2"
    assert run.result("finish_view")["finished_epoch"] == 2
    assert asset_events("several_orders") == [("epoch", 1), ("epoch", 2), ("finished", 2)]
    assert orders.backfill.store.applications.read("epoch-2") is None
    assert orders.view() == orders.expected()


@pytest.mark.exhaustive
def test_a_view_that_the_command_line_finished_is_reported_once(
    orders: Orders, environment, run_dag, tmp_path, spark_remote
):
    """A command line emits no asset events; the next run of the job's DAG does."""
    orders.define(name="typed_orders", materialized_view=str(tmp_path / "typed orders"))
    for command in (["create"], ["run", "--until-finished"]):
        subprocess.run(
            [sys.executable, "-c", CLI, *command, str(orders.file), "--master", spark_remote],
            check=True,
        )
    assert orders.backfill.store.settings().finished_epoch == 2
    assert asset_events("typed_orders finished") == []

    states = [run_dag("backfill_scheduled").states["backfill.finish_view", -1] for _ in range(2)]

    assert states == ["success", "skipped"]
    assert asset_events("typed_orders finished") == [("finished", 2)]


@pytest.mark.exhaustive
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
        run.states["backfill.epoch_1.read_chunk_part", 0]
        == run.states["backfill.epoch_1.read_chunk_part", 1]
        == "success"
    )
    parts = run.results("backfill.epoch_1.read_chunk_part", 2)
    summary = run.result("backfill.epoch_1.summary")
    assert summary["rows"] == sum(part["rows"] for part in parts)
    assert summary["finished"]
    assert run.name("backfill.epoch_1.read_chunk_part", 1) == "epoch 1, part 1"
    assert run.result("backfill.finish_view")["finished_epoch"] == 1
    assert orders.view() == orders.expected()


@pytest.mark.exhaustive
def test_a_view_on_a_view_begins_when_the_first_one_is_finished(orders: Orders, environment, run_dag, tmp_path):
    """The first view records its changes; the second one's epochs read them."""
    first = orders.define(
        name="first_orders",
        materialized_view=str(tmp_path / "first orders"),
        table_properties={"delta.enableChangeDataFeed": "true"},
    )
    second = {
        "name": "big_orders",
        "upstream": {"path": first["materialized_view"], "key": ["order_id"]},
        "materialized_view": str(tmp_path / "large orders"),
        "query": "SELECT order_id, cents FROM upstream WHERE cents >= 300",
        "vnode_count": 4,
    }
    file = tmp_path / "large orders.yaml"
    file.write_text(yaml.safe_dump(second), encoding="utf-8")
    environment.setenv("AIRFLOW_BACKFILL_NEXT_JOB", str(file))

    def large() -> dict[int, int]:
        rows = DeltaTable(second["materialized_view"]).to_pyarrow_table().to_pylist()
        return {row["order_id"]: row["cents"] for row in rows}

    def expected() -> dict[int, int]:
        return {order_id: cents for order_id, cents in orders.expected().items() if cents >= 300}

    filling = run_dag("backfill_in_order")
    assert filling.state == "success"
    assert filling.states["first.finish_view", -1] == "skipped"
    assert filling.states["first_view_is_finished", -1] == "skipped"
    assert filling.states["second.create_job", -1] == "skipped"

    finishing = run_dag("backfill_in_order")
    assert finishing.state == "success"
    assert finishing.result("second.finish_view")["finished_epoch"] == 1
    assert large() == expected()

    orders.append({200: 9, 201: 1})
    orders.delete(4)
    refreshing = run_dag("backfill_in_order")
    assert refreshing.state == "success"
    assert refreshing.results("second.run_epoch", 1)[0]["changes"] == 3
    assert 200 in large()
    assert large() == expected()


@pytest.mark.exhaustive
def test_a_view_is_rebuilt_while_it_serves_and_the_rebuild_is_undone(orders: Orders, environment, run_dag, tmp_path):
    """The job's own DAG runs both, and needs no change."""
    place = {"name": "rebuilt_orders", "materialized_view": str(tmp_path / "rebuilt orders"), "rate_limit": None}
    orders.define(**place)
    assert run_dag("backfill_scheduled").state == "success"
    former = orders.view()
    orders.define(**place, query="SELECT order_id, amount * 100 AS cents FROM upstream WHERE amount > 2")

    assert run_dag("backfill_rebuild", {"action": "keep_serving"}).state == "success"
    assert orders.view() == former
    growing = run_dag("backfill_scheduled")
    assert growing.state == "success"
    assert growing.states["backfill.run_rebuild", -1] == "success"
    assert growing.result("backfill.run_rebuild")["finished"] is True
    assert orders.view() == former
    assert run_dag("backfill_scheduled").state == "success"
    latter = {order: cents for order, cents in former.items() if cents > 200}
    assert orders.view() == latter

    assert run_dag("backfill_rebuild", {"action": "revert"}).state == "success"
    assert orders.view() == former


@pytest.mark.exhaustive
def test_a_view_follows_a_changed_query_from_the_trigger_form(orders: Orders, environment, run_dag, tmp_path):
    place = {"name": "changed_orders", "materialized_view": str(tmp_path / "changed orders"), "rate_limit": None}
    orders.define(**place)
    assert run_dag("backfill_scheduled").state == "success"
    former = orders.view()
    orders.define(**place, query="SELECT order_id, amount * 100 AS cents FROM upstream WHERE amount > 2")

    assert run_dag("backfill_rebuild", {"action": "change"}).state == "success"
    assert orders.view() == former
    assert run_dag("backfill_scheduled").state == "success"
    assert orders.view() == {order: cents for order, cents in former.items() if cents > 200}


@pytest.mark.exhaustive
def test_a_view_is_compacted_at_night_and_its_epochs_go_on(orders: Orders, environment, run_dag, tmp_path):
    # Of two assets with one name Airflow lets only one be active.
    orders.define(name="compacted_orders", materialized_view=str(tmp_path / "compacted orders"))
    environment.setenv("AIRFLOW_BACKFILL_BARRIERS", "2")
    environment.setenv("AIRFLOW_BACKFILL_COMPACT_AT", "1")
    assert run_dag("backfill_scheduled").state == "success"

    compacted = run_dag("backfill_compact")

    assert compacted.state == "success"
    assert compacted.result("compact_view")["compacted"] is True
    assert compacted.result("compact_view")["view"]["files"] == 1
    assert orders.view() == orders.expected()
    assert run_dag("backfill_compact").result("compact_view")["compacted"] is False

    orders.append({300: 6})
    orders.delete(1)
    assert run_dag("backfill_scheduled").state == "success"
    assert orders.view() == orders.expected()


@pytest.mark.exhaustive
def test_a_view_is_verified_and_what_differs_is_repaired(orders: Orders, environment, run_dag, tmp_path):
    orders.define(name="verified_orders", materialized_view=str(tmp_path / "verified orders"))
    environment.setenv("AIRFLOW_BACKFILL_BARRIERS", "2")
    assert run_dag("backfill_scheduled").state == "success"
    DeltaTable(orders.backfill.job.materialized_view).delete("order_id = 2")

    ran = run_dag("backfill_verify")

    assert ran.state == "success"
    assert ran.result("verify_view")["keys"]["missing"] == 1
    assert ran.result("repair_what_differs")["equal"] is True
    assert orders.view() == orders.expected()
    assert [event for event, _ in asset_events("verified_orders verified")] == ["verified"]


def asset_events(asset: str) -> list[tuple[str, int]]:
    """Return the events of an asset so far: what happened, and in which epoch."""
    from airflow.models.asset import AssetEvent
    from airflow.utils.session import create_session

    with create_session() as session:
        events = session.query(AssetEvent).order_by(AssetEvent.id)
        return [(event.extra["event"], event.extra["epoch"]) for event in events if event.asset.name == asset]
