"""Status and watch."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from airflow_backfill_provider.cli.commands import look
from airflow_backfill_provider.jobs import mutations

pytestmark = pytest.mark.slow  # whole epochs through Delta tables


def everything_of(job):
    """Return each file and folder of a job with its size and the time of its last change."""
    defined = job.backfill.job
    places = map(Path, (defined.upstream.location, defined.view_location, defined.state, job.file.parent))
    found = {path for place in places for path in (place, *place.rglob("*")) if path.exists()}
    return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in found}


def status_of(job):
    result = job("status", "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_status_before_the_first_epoch(created, engine):
    status = status_of(created)
    assert engine.starts == 0
    assert status["name"] == "small_orders"
    assert status["strategy"] == "no_shuffle"
    assert (status["epoch"], status["finished"], status["paused"]) == (0, False, False)
    assert (status["rate_limit"], status["effective_rate_limit"]) == (300, 300)
    assert status["vnodes"] == {"total": 4, "not_started": 4, "in_progress": 0, "completed": 0}
    assert (status["rows_read"], status["progress"], status["eta_seconds"]) == (0, 0.0, None)
    assert (status["upstream_version"], status["upstream_latest_version"], status["lag_versions"]) == (None, 3, 4)


def test_status_underway(created):
    assert created("run").exit_code == 0
    status = status_of(created)
    assert status["vnodes"]["in_progress"] == 4
    assert (status["rows_read"], status["rows_estimated"], status["progress"]) == (300, 1000, 0.3)
    assert status["eta_seconds"] > 0
    assert status["lag_versions"] == 0


def test_status_when_finished(created):
    assert created("run", "--until-finished").exit_code == 0
    status = status_of(created)
    assert status["finished"]
    assert (status["progress"], status["eta_seconds"]) == (1.0, 0.0)
    assert status["watermark"] is not None
    assert "finished" in created("status").stdout


@pytest.mark.parametrize(
    ("command", "printed"),
    [
        ([], "in progress"),
        (["pause"], "paused"),
        (["throttle", "0"], "rate limit 0"),
        (["cancel"], "cancelled"),
    ],
)
def test_status_for_a_person(created, command, printed):
    assert created("run").exit_code == 0
    if command:
        assert created(*command).exit_code == 0
    output = created("status").stdout
    assert f"small_orders (no_shuffle), {printed}" in output
    assert "30.0 %, 300 of 1,000 rows" in output
    assert "lag 0 versions" in output


def test_status_shows_auto_and_the_pace(created):
    created("throttle", "auto", "--max-rows-per-second", "9")
    output = created("status").stdout
    assert "rate limit  auto: chosen when the next epoch is pinned\n" in output
    assert "pace        at most 9 rows per second, averaged over a run of several epochs\n" in output
    created("run")
    assert "rate limit  auto: 540 rows per epoch, because a chunk has no more rows than" in created("status").stdout


@pytest.mark.exhaustive
def test_watch_ends_when_the_view_is_finished(created, monkeypatch):
    def run_elsewhere(_):
        assert created("run", "--max-epochs", "2").exit_code == 0

    monkeypatch.setattr(look, "time", SimpleNamespace(sleep=run_elsewhere))
    result = created("watch", "--interval", "0.1")
    assert result.exit_code == 0
    progress = [line.split(", ")[0] for line in result.stdout.splitlines()]
    assert progress == ["small_orders: 0.0 %", "small_orders: 60.0 %", "small_orders: 100.0 %"]


def test_watch_of_a_cancelled_job_ends(created):
    mutations.cancel_job(store=created.backfill.store, requested_by="somebody")
    result = created("watch")
    assert result.exit_code == 1
    assert "cancelled" in result.output


def test_interrupting_watch_prints_one_line(created, monkeypatch):
    def interrupt(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(look, "time", SimpleNamespace(sleep=interrupt))
    result = created("watch")
    assert result.exit_code == 130
    assert result.stderr.count("\n") == 1


def test_interval_must_be_positive(created):
    assert created("watch", "--interval", "0").exit_code == 2


def test_the_map_of_vnodes_shows_where_each_is(created):
    created.write(strategy="arrangement", vnode_count=8)
    assert created("rebuild").exit_code == 0
    assert created("run").exit_code == 0
    found = json.loads(created("status", "--json").stdout)
    states = [run["state"] for run in found["vnode_map"]]
    assert states == ["completed", "in_progress", "not_started"]
    assert [run["first"] for run in found["vnode_map"]] == [0, *(run["last"] + 1 for run in found["vnode_map"][:-1])]
    assert sum(run["rows"] for run in found["vnode_map"]) == found["rows_read"] == 300
    begun = found["vnode_map"][1]
    assert 0 < begun["progress"] < 1
    assert begun["position"] is not None
    done, left = begun["first"], 7 - begun["last"]
    output = created("status").stdout
    assert "█" * done + "▒" + "·" * left in output
    assert f"in progress vnode {begun['first']} (" in output


@pytest.mark.parametrize("epochs", [0, 1, 4])
def test_commands_that_only_look_write_nothing(created, monkeypatch, epochs):
    """Neither to the upstream, nor to the view, nor to the control tables, nor beside them."""
    for _ in range(epochs):
        assert created("run").exit_code == 0
    before = everything_of(created)
    assert any("/_delta_log/" in path for path in before)

    def interrupt(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(look, "time", SimpleNamespace(sleep=interrupt))
    for command in (["plan"], ["plan", "--json"], ["status"], ["status", "--json"], ["watch"]):
        assert created(*command).exit_code in {0, 130}
        assert everything_of(created) == before, command


def test_a_plan_of_a_job_that_was_not_created_writes_nothing(job):
    before = everything_of(job)
    assert job("plan").exit_code == 0
    assert everything_of(job) == before


def test_a_verification_writes_only_its_own_record(created):
    assert created("run", "--until-finished").exit_code == 0
    before = everything_of(created)
    assert created("verify").exit_code == 0
    after = everything_of(created)
    state = created.backfill.job.state
    changed = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
    assert changed
    assert {path for path in changed if "/verifications" not in path} <= {state}
