"""The events of a view that other DAGs get, and when."""

from __future__ import annotations

import json

import pytest
from airflow.sdk import Asset, AssetAlias, AssetAny

from airflow_backfill_provider.assets import (
    MATERIALIZED_VIEWS,
    finished_view_asset,
    materialized_view_asset,
    upstream_asset,
    verified_view_asset,
)
from airflow_backfill_provider.operators.epoch import RunEpochOperator
from airflow_backfill_provider.operators.shared_epoch import EpochSummaryOperator
from tests.several import shape_of_several, star
from tests.unit.stand_in import Lake, StandInSpark, context

pytestmark = pytest.mark.slow  # whole epochs through Delta tables


def epoch_events(ctx) -> list[dict]:
    return [event.extra for event in ctx["outlet_events"][MATERIALIZED_VIEWS].asset_alias_events]


def run_epoch(lake: Lake, *, map_index: int = -1):
    ctx = context("run_epoch", map_index=map_index)
    RunEpochOperator(task_id="run_epoch", job=lake.definition, outlets=[MATERIALIZED_VIEWS]).execute(ctx)
    return epoch_events(ctx)


def test_every_epoch_sends_an_event_with_the_progress_of_the_view(created: Lake, spark: StandInSpark):
    first, second = run_epoch(created, map_index=0), run_epoch(created, map_index=1)

    assert [event["progress"] for event in first + second] == [0.4, 0.8]
    (event,) = first
    assert event.keys() >= {
        "job",
        "epoch",
        "from_version",
        "to_version",
        "rows",
        "changes",
        "rows_read",
        "view_version",
    }
    assert (event["event"], event["epoch"], event["to_version"], event["rows"]) == ("epoch", 1, 3, 400)
    assert json.loads(json.dumps(event)) == event


def test_a_task_with_nothing_to_do_sends_nothing(created: Lake, spark: StandInSpark):
    created.finish()

    assert run_epoch(created) == []


def test_the_last_task_of_a_shared_epoch_sends_its_event(created: Lake):
    created.epochs(1)
    ctx = context("summary")

    EpochSummaryOperator(task_id="s", job=created.definition, barrier=1, outlets=[MATERIALIZED_VIEWS]).execute(ctx)

    assert [event["epoch"] for event in epoch_events(ctx)] == [1]


def test_another_asset_alias_is_left_alone(created: Lake, spark: StandInSpark):
    ctx, other = context("run_epoch"), AssetAlias("something else")

    RunEpochOperator(task_id="run_epoch", job=created.definition, outlets=[other]).execute(ctx)

    assert ctx["outlet_events"][other].asset_alias_events == []


def test_a_views_assets_have_different_names(orders: Lake):
    view, finished = materialized_view_asset(orders.definition), finished_view_asset(orders.definition)

    assert view.extra["definition"] == orders.definition
    assert len({view.name, finished.name}) == len({view.uri, finished.uri}) == 2
    assert isinstance(view, Asset)


def test_each_of_a_jobs_assets_is_about_one_thing(orders: Lake):
    """The pages find jobs by the group of their views; a DAG on one asset is not woken up by another."""
    makers = (materialized_view_asset, finished_view_asset, verified_view_asset, upstream_asset)
    made = [make(orders.definition) for make in makers]
    name = made[0].name

    assert [(asset.name, asset.group) for asset in made] == [
        (name, "materialized_view"),
        (f"{name} finished", "finished_materialized_view"),
        (f"{name} verified", "verified_materialized_view"),
        (f"{name} upstream", "backfill_upstream"),
    ]
    assert [asset.uri.rpartition("?")[2] for asset in made[1:]] == ["event=finished", "event=verified", f"job={name}"]


def test_assets_carry_the_names_of_tables_in_a_catalog(orders: Lake):
    """A DAG's author knows the names before any catalog is asked for locations."""
    fields = {
        "upstream": {"table": "prod.sales.orders", "key": ["order_id"]},
        "materialized_view": "prod.sales.small_orders",
        "state": f"{orders.folder}/state",
    }
    named = Lake(orders.folder, fields).definition
    view = materialized_view_asset(named)
    assert (view.name, view.uri) == ("small_orders", "catalog://prod/sales/small_orders")
    assert view.extra["definition"] == named
    assert finished_view_asset(named).uri == "catalog://prod/sales/small_orders?event=finished"
    assert upstream_asset(named).uri == "catalog://prod/sales/orders?job=small_orders"


def test_a_dag_starts_on_a_commit_of_any_upstream():
    with shape_of_several():
        found = upstream_asset(star())
        assert isinstance(found, AssetAny)
        triggers = [watcher.trigger for asset in found.objects for watcher in asset.watchers]
        assert len({trigger.shared_stream_key() for trigger in triggers}) == len(triggers) == 2
    assert {(asset.name, asset.uri) for asset in found.objects} == {
        ("named_orders upstream", "file:///lake/orders?job=named_orders"),
        ("named_orders customers upstream", "file:///lake/customers?job=named_orders"),
    }
