"""The dry run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

pytestmark = pytest.mark.slow  # whole epochs through Delta tables


def plan_of(job) -> dict[str, Any]:
    result = job("plan", "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_plan_works_before_create_and_writes_nothing(job, engine, tmp_path):
    before = sorted(tmp_path.rglob("*"))
    plan = plan_of(job)
    assert sorted(tmp_path.rglob("*")) == before
    assert engine.starts == 0
    assert plan["strategy"] == "no_shuffle"
    assert not plan["created"]
    assert (plan["files"], plan["rows"], plan["rows_left"], plan["epochs"]) == (4, 1000, 1000, 4)
    assert plan["bytes"] > 0
    assert plan["first_epoch_files"] == 2
    assert plan["warnings"] == []


def test_plan_for_a_person_names_strategy_and_costs(job):
    output = job("plan").stdout
    assert "no_shuffle: chosen by auto, because the files' statistics bound each chunk" in output
    assert "1,000 rows in about 4 epochs" in output
    assert "nothing was written" in output


def test_plan_of_a_created_job_is_about_what_is_left(created):
    assert created("run").exit_code == 0
    plan = plan_of(created)
    assert plan["created"]
    assert (plan["rows_left"], plan["epochs"]) == (700, 3)


def test_unlimited_is_one_epoch(job):
    job.write(rate_limit=None)
    assert plan_of(job)["epochs"] == 1


def test_auto_says_what_it_begins_with_and_estimates_the_epochs(job):
    job.write(rate_limit="auto", target_epoch_seconds=0.001)
    plan = plan_of(job)
    assert plan["rate_limit"] == "auto"
    assert 1 <= plan["effective_rate_limit"] < plan["rows"]
    assert plan["rate_limit_reason"].startswith("because no speed is measured yet; it begins with about 1.0 KiB of")
    assert plan["epochs"] >= 2
    assert plan["estimates"]["no_shuffle"]["epochs"] == plan["epochs"]
    assert f"auto: {plan['effective_rate_limit']} rows per epoch, because no speed" in job("plan").stdout


def test_rate_limit_zero_has_no_epochs(job):
    job.write(rate_limit=0)
    assert plan_of(job)["epochs"] is None
    assert "paused: no epoch reads any of it" in job("plan").stdout


def test_plan_of_a_finished_job(created):
    assert created("run", "--until-finished").exit_code == 0
    assert plan_of(created)["epochs"] == 0
    assert "the backfill is complete" in created("plan").stdout


def test_plan_warns_where_statistics_cannot_bound_a_chunk(job, tmp_path):
    path = Path(tmp_path / "lake" / "scattered")
    from tests.unit.cli.conftest import append

    for number in range(12):
        append(path, list(range(number, 1200, 12)))
    job.write(upstream={"path": str(path), "key": ["order_id"]}, rate_limit=50)
    assert plan_of(job)["strategy"] == "arrangement"
    job.write(strategy="no_shuffle")
    plan = plan_of(job)
    assert plan["reason"] == "the job asks for it"
    assert "not laid out in key order" in plan["warnings"][0]
    assert "strategy arrangement" in plan["warnings"][0]


def test_plan_refuses_what_create_refuses(job):
    job.write(upstream={"path": job.definition["upstream"]["path"], "key": ["nope"]})
    result = job("plan")
    assert result.exit_code == 1
    assert "upstream.key" in result.stderr
    assert "'nope'" in result.stderr


def test_plan_warns_of_a_table_at_the_views_path(job):
    DeltaTable.create(
        job.definition["materialized_view"], schema=DeltaTable(job.definition["upstream"]["path"]).schema()
    )
    assert "there is already a table at" in plan_of(job)["warnings"][0]


def test_plan_compares_what_the_strategies_would_cost(job):
    estimates = plan_of(job)["estimates"]
    assert set(estimates) == {"no_shuffle", "arrangement"}
    for cost in estimates.values():
        assert (cost["rows"], cost["epochs"], cost["spark_runs"]) == (1000, 4, 5)
        assert cost["hours"] > 0
    job.write(parallelism=4)
    assert plan_of(job)["estimates"]["arrangement"]["spark_runs"] == 1 + 4 * 5
    output = job("plan").stdout
    assert "arrangement: chosen by auto, because 4 parallel task runs must divide the vnodes" in output
    assert "4 task runs share each epoch" in output
    assert "hours are a rough estimate" in output


def test_plan_with_an_existing_arrangement_has_what_the_next_epoch_reads(job, engine):
    job.write(strategy="arrangement")
    assert "into which creating the job sorts the upstream once" in job("plan").stdout
    assert job("create").exit_code == 0
    assert job("run").exit_code == 0
    plan = plan_of(job)
    assert (plan["rows_left"], plan["epochs"]) == (700, 3)
    assert plan["first_epoch_files"] >= 1
    assert "files of the arrangement" in job("plan").stdout
