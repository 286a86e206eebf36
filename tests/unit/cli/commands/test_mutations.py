"""Pause, resume, throttle, rescale, repair, cancel: they change settings and start no Spark."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.epoch.settings import SettingsChange

pytestmark = pytest.mark.slow  # whole epochs through Delta tables


@pytest.fixture(autouse=True)
def _no_spark(engine):
    yield
    assert engine.starts == 0


def test_pause_and_resume(created):
    result = created("pause")
    assert result.exit_code == 0
    assert result.stdout == "small_orders: paused from the next epoch on\n"
    assert created.backfill.store.settings().paused
    assert created("resume").exit_code == 0
    assert not created.backfill.store.settings().paused


def test_pausing_twice_changes_nothing(created):
    created("pause")
    sequence = created.backfill.store.settings().sequence
    result = created("pause")
    assert result.exit_code == 0
    assert "(as before)" in result.stdout
    assert created.backfill.store.settings().sequence == sequence


@pytest.mark.parametrize(
    ("value", "limit"), [("0", 0), ("1", 1), ("9223372036854775807", 2**63 - 1), ("none", None), ("auto", "auto")]
)
def test_throttle(created, value, limit):
    assert created("throttle", value).exit_code == 0
    assert created.backfill.store.settings().rate_limit == limit


@pytest.mark.parametrize("value", ["-1", "1.5", "many", "9223372036854775808", "", "１"])
def test_throttle_with_nonsense_is_wrong_usage(created, value):
    result = created("throttle", value)
    assert result.exit_code == 2
    assert created.backfill.store.settings().rate_limit == 300


def test_throttle_takes_a_target_and_a_pace_and_says_what_is_in_force(created):
    result = created("throttle", "auto", "--target-seconds", "30", "--max-rows-per-second", "500")
    limit = "rate limit is auto, for epochs of about 30 s, from the next epoch on"
    assert result.stdout == f"small_orders: {limit}; at most 500 rows per second\n"
    settings = created.backfill.store.settings()
    assert (settings.target_epoch_seconds, settings.max_rows_per_second) == (30, 500)
    assert "at most 500 rows per second" in created("throttle", "7").stdout
    assert created("throttle", "7", "--max-rows-per-second", "none").stdout.endswith("from the next epoch on\n")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["auto", "--target-seconds", "0"], 2),
        (["auto", "--target-seconds", "soon"], 2),
        (["auto", "--max-rows-per-second", "0"], 2),
        (["7", "--target-seconds", "30"], 1),
        (["auto", "--target-seconds", "nan"], 2),
    ],
)
def test_throttle_with_a_wrong_target_or_pace_changes_nothing(created, arguments, code):
    result = created("throttle", *arguments)
    assert result.exit_code == code
    assert len(created.backfill.store.settings_history()) == 1


def test_resume_says_that_the_rate_limit_still_holds(created):
    created("throttle", "0")
    created("pause")
    assert "still reads nothing" in created("resume").stdout


def test_settings_can_be_changed_while_the_definition_is_being_edited(created):
    created.write(query="SELECT order_id FROM upstream")
    assert created("pause").exit_code == 0


def test_settings_of_another_job_are_left_alone(created):
    created.write(name="another", state=created.backfill.job.state)
    result = created("pause")
    assert result.exit_code == 1
    assert "small_orders" in result.stderr
    assert not created.backfill.store.settings().paused


def test_rescale_needs_the_arrangement(created):
    result = created("rescale", "4")
    assert result.exit_code == 1
    assert "arrangement" in result.stderr
    assert result.stderr.count("\n") == 1
    assert created("rescale", "0").exit_code == 2


def test_cancel(created):
    assert created("cancel").exit_code == 0
    assert created.backfill.store.settings().change is SettingsChange.CANCEL
    for command in (("run",), ("pause",), ("throttle", "1")):
        result = created(*command)
        assert result.exit_code == 1
        assert "cancelled" in result.stderr
    assert created("cancel").exit_code == 0


@pytest.mark.parametrize("command", [("pause",), ("throttle", "1"), ("cancel",), ("status",), ("watch",)])
def test_a_job_must_have_been_created(created, command):
    created.write(name="new_orders", state=created.backfill.job.state + "_new")
    result = created(*command)
    assert result.exit_code == 1
    assert "not created yet" in result.stderr


@pytest.fixture(scope="module")
def as_arranged(prepare):
    return prepare("create", "run", strategy="arrangement", vnode_count=8)


@pytest.fixture
def arranged(as_arranged):
    """The job, created under arrangement, after one epoch."""
    return as_arranged()


def test_the_status_has_a_rescale_before_a_barrier_pins_it(arranged):
    result = arranged("rescale", "4")
    assert result.stdout == "small_orders: 4 parallel task runs share the vnodes from the next epoch on\n"
    assert arranged("rescale", "4").stdout.endswith("(as before)\n")
    assert "shared by 4 parallel task runs" in arranged("status").stdout
    assert arranged("rescale", "1").stdout.startswith("small_orders: one task run reads the vnodes")
    assert arranged("rescale", "9").exit_code == 1
    assert arranged("rescale", "0").exit_code == 2


def test_repair_takes_vnodes_and_keys(arranged):
    assert arranged("repair", "--vnodes", "0-1,3", "--key", "5", "--key", "[7]").exit_code == 0
    repair = arranged.backfill.store.settings().repair
    assert (repair.vnodes, repair.keys) == ((0, 1, 3), (("5",), ("7",)))


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ([], 1, "was not verified yet"),
        (["--vnodes", "8"], 1, "allowed are numbers from 0 to 7"),
        (["--key", "x"], 1, "is not a key of the upstream"),
        (["--key", "[1, 2]"], 1, "is not a key of the upstream"),
        (["--key", "[1"], 2, "is not a JSON list"),
    ],
)
def test_repair_of_what_the_job_does_not_have_is_refused(arranged, arguments, code, message):
    result = arranged("repair", *arguments)
    assert result.exit_code == code
    assert message in " ".join(result.stderr.replace("│", " ").split())
