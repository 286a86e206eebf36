"""Epochs one after another: how many, when to stop, and the output."""

from __future__ import annotations

import pyarrow as pa
import pytest

from airflow_backfill_provider import protocol
from airflow_backfill_provider.cli import runner
from airflow_backfill_provider.cli.output import console
from airflow_backfill_provider.cli.views import LineView
from airflow_backfill_provider.core.errors import EpochFailedError, InvalidJobError
from airflow_backfill_provider.core.job.requester import Requester
from airflow_backfill_provider.jobs import mutations
from tests.builders import write_table
from tests.unit.cli.conftest import append

pytestmark = pytest.mark.slow  # whole epochs through Delta tables


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch):
    monkeypatch.setattr(runner, "RETRY_SECONDS", 0)


def test_run_runs_one_epoch(created, engine):
    result = created("run")
    assert result.exit_code == 0
    assert engine.executed == [1]
    assert "epoch 1: 300 rows read" in result.stdout
    assert "30.0 %, 300 of 1,000 rows" in result.stdout


def test_max_epochs(created, engine):
    assert created("run", "--max-epochs", "2").exit_code == 0
    assert engine.executed == [1, 2]


def test_a_run_of_several_epochs_waits_for_its_pace_and_shows_it(created, engine):
    """Until the pace is taken away while it waits."""
    store, shown, waits = created.backfill.store, [], []
    mutations.throttle_job(300, max_rows_per_second=1, store=store, requested_by="x")

    class View(LineView):
        def show(self, status, activity="", notes=()):
            shown.append(activity)

    def wait(seconds):
        waits.append(seconds)
        mutations.throttle_job(300, max_rows_per_second=None, store=store, requested_by="x")

    running = runner.Runner(
        backfill=created.backfill,
        engine=lambda: engine,
        requester=Requester(user="vera"),
        view=View(console()),
        sleep=wait,
    )
    running.run(max_epochs=2, until_finished=False)
    assert engine.executed == [1, 2]
    assert waits == [1.0]
    assert "waits, to keep to max_rows_per_second" in shown


def test_until_finished_marks_the_view_finished(created, engine):
    result = created("run", "--until-finished")
    assert result.exit_code == 0
    assert engine.executed == [1, 2, 3, 4]
    assert "finished as of epoch 4" in result.stdout
    assert created.backfill.store.settings().finished_epoch == 4


def test_the_epoch_that_completes_the_job_also_finishes_it(created):
    assert created("run", "--max-epochs", "4").exit_code == 0
    assert created.backfill.store.settings().finished_epoch == 4


def test_with_both_limits_the_first_one_ends_the_command(created, engine):
    result = created("run", "--until-finished", "--max-epochs", "2")
    assert result.exit_code == 0
    assert engine.executed == [1, 2]
    assert "not finished" in result.stdout


def test_nothing_to_do_starts_no_spark(created, engine):
    assert created("run", "--until-finished").exit_code == 0
    engine.starts = 0
    result = created("run")
    assert result.exit_code == 0
    assert "nothing to do: the upstream has no changes" in result.stdout
    assert engine.starts == 0


def test_until_finished_on_a_finished_job_says_so_and_starts_no_spark(created, engine):
    assert created("run", "--until-finished").exit_code == 0
    engine.starts = 0
    append(created.backfill.job.upstream.location, [5000])
    result = created("run", "--until-finished")
    assert result.exit_code == 0
    assert "already" in result.stdout
    assert engine.starts == 0


def test_a_finished_job_is_kept_fresh(created, engine):
    assert created("run", "--until-finished").exit_code == 0
    append(created.backfill.job.upstream.location, [5000])
    assert created("run").exit_code == 0
    assert engine.executed == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("command", [("pause",), ("throttle", "0")])
def test_until_finished_stops_at_a_job_that_waits(created, engine, command):
    assert created("run").exit_code == 0
    assert created(*command).exit_code == 0
    result = created("run", "--until-finished")
    assert result.exit_code == 0
    assert "nothing to do: " in result.stdout
    append(created.backfill.job.upstream.location, [5000])
    result = created("run", "--until-finished")
    assert result.exit_code == 0
    assert "stopped, not finished" in result.stdout
    assert engine.executed == [1, 2]


def test_a_pause_by_another_process_stops_a_running_command(created, engine):
    def pause(barrier):
        if barrier.epoch == 2:
            mutations.pause_job(store=created.backfill.store, requested_by="somebody")

    engine.before_execute = pause
    result = created("run", "--until-finished")
    assert result.exit_code == 0
    assert engine.executed == [1, 2]
    assert "paused" in result.stdout


def test_run_of_a_job_that_was_not_created(job, engine):
    result = job("run")
    assert result.exit_code == 1
    assert f"airflow-backfill create {job.file}" in result.stderr
    assert engine.starts == 0


def test_run_with_a_changed_definition_is_refused(created):
    created.write(query="SELECT order_id FROM upstream")
    result = created("run")
    assert result.exit_code == 1
    assert "another query" in result.stderr


def test_a_pinned_epoch_is_run_first(created, engine):
    backfill = created.backfill
    protocol.inject_barrier(store=backfill.store, upstream=backfill.upstream, requester=Requester(user="who@died"))
    assert created("run").exit_code == 0
    assert engine.executed == [1]
    assert backfill.store.last_epoch() == 1


@pytest.mark.exhaustive
def test_a_command_that_died_before_marking_finished_is_repaired_without_spark(created, engine, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(protocol, "finish_job", lambda **_: None)
        assert created("run", "--max-epochs", "4").exit_code == 0
    assert created.backfill.store.settings().finished_epoch is None
    engine.starts = 0
    assert created("run", "--until-finished").exit_code == 0
    assert created.backfill.store.settings().finished_epoch == 4
    assert engine.starts == 0


def test_a_retryable_error_is_retried(created, engine):
    engine.failures = [EpochFailedError("epoch 1 failed: the network"), EpochFailedError("again")]
    result = created("run")
    assert result.exit_code == 0
    assert "the network; trying again (1 of 2)" in result.stdout
    assert engine.executed == [1]


def test_an_error_that_persists_fails_the_command(created, engine):
    engine.failures = [EpochFailedError(f"epoch 1 failed {attempt}") for attempt in range(3)]
    result = created("run")
    assert result.exit_code == 1
    assert result.stderr == "airflow-backfill: error: epoch 1 failed 2\n"


def test_a_permanent_error_is_not_retried(created, engine):
    engine.failures = [InvalidJobError("query: no"), InvalidJobError("not reached")]
    result = created("run")
    assert result.exit_code == 1
    assert result.stderr == "airflow-backfill: error: query: no\n"


def test_interrupting_is_one_line(created, engine):
    def interrupt(barrier):
        raise KeyboardInterrupt

    engine.before_execute = interrupt
    result = created("run")
    assert result.exit_code == 130
    assert result.stderr.count("\n") == 1
    assert "interrupted" in result.stderr


def test_the_barrier_log_has_the_requester(created):
    assert created("run").exit_code == 0
    assert "@" in str(created.backfill.store.barriers()[0].injected_by)


def test_a_job_may_be_created_paused(job, engine):
    assert job("create", "--paused").stdout.startswith("small_orders: created, paused, strategy ")
    assert job.backfill.store.settings().paused
    assert job("run").exit_code == 0
    assert engine.executed == []
    assert job("resume").exit_code == 0
    assert "was created already, not paused, strategy" in job("create", "--paused").stdout


def test_a_column_that_a_star_follows_is_asked_for_after_the_epoch_that_meets_it(created):
    created.write(query="SELECT * FROM upstream", star="follow", rate_limit=None)
    assert created("rebuild").exit_code == 0
    assert created("run", "--until-finished").exit_code == 0
    row = {"order_id": pa.array([2000]), "amount": pa.array([1], pa.int32()), "note": pa.array(["new"])}
    write_table(created.backfill.job.upstream.location, row, schema_mode="merge")
    result = created("run", "--max-epochs", "1")
    assert "note came to the upstream; the next epoch writes the whole view with it" in result.stdout
    assert created.backfill.store.settings().upstream.types["note"] == "string"
