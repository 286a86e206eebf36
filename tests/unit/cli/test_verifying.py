"""``verify``, and ``repair`` of what it found: output and exit code. Tests on Spark compare rows."""

from __future__ import annotations

import json

import pytest

from tests.unit.cli.conftest import fails

pytestmark = pytest.mark.slow  # whole epochs through Delta tables

EQUAL = (
    "small_orders as of epoch 1, upstream offset 3: 10 rows expected, 0 missing, 0 unexpected, 0 repeated, 0 different"
)


@pytest.fixture(scope="module")
def as_run(prepare):
    return prepare("create", "run")


@pytest.fixture
def ran(as_run):
    """The job, one epoch of which is committed."""
    return as_run()


def test_a_view_that_is_equal(ran, engine):
    result = ran("verify")
    assert (result.exit_code, result.stderr, result.stdout.splitlines()) == (0, "", [EQUAL])
    newest = ran.backfill.verifications.newest_finished(ran.backfill.settings().incarnation)
    assert (newest.equal, newest.pinned.begun_by.is_task_run, engine.starts) == (True, False, 1)


def test_a_view_that_differs(ran, engine):
    engine.missing = [[str(number) for number in range(12)]]
    result = ran("verify", "--steps", "2")
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert lines[:2] == ["1 of 2 steps, 0 s", "2 of 2 steps, 0 s"]
    assert "12 missing" in lines[2]
    assert lines[3] == '  missing: ["0"] of vnode 0'
    assert lines[-1] == "  and 2 more, in the vnodes 0"
    assert result.stderr.count("\n") == 1
    assert "differs from its query" in result.stderr


def test_an_interrupted_verification_resumes_unless_a_new_one_is_requested(ran, engine, monkeypatch):
    steps = []
    compare = type(engine).compare

    def dies_once(self, settings, pinned, barrier, vnodes):
        steps.append((pinned.number, vnodes))
        if len(steps) == 2:
            raise KeyboardInterrupt
        return compare(self, settings, pinned, barrier, vnodes)

    monkeypatch.setattr(type(engine), "compare", dies_once)
    assert ran("verify", "--steps", "2").exit_code == 130
    assert ran("verify").exit_code == 0
    assert ran("verify", "--anew").exit_code == 0
    assert steps == [(1, (0, 1)), (1, (2, 3)), (1, (2, 3)), (2, (0, 3))]


def test_for_programs(ran, engine):
    engine.missing = [["7"]]
    result = ran("verify", "--json")
    assert result.exit_code == 1
    found = json.loads(result.stdout)
    assert (found["equal"], found["epoch"], found["vnodes"], found["keys"]["missing"]) == (False, 1, "0", 1)
    assert found["sample"] == [{"kind": "missing", "vnode": 0, "key": ["7"], "columns": []}]


def test_no_steps_are_wrong_usage(ran):
    assert ran("verify", "--steps", "0").exit_code == 2


def test_a_view_that_differs_is_repaired_and_verified_again(ran, engine):
    engine.missing = [["7", "8"]]
    ran("verify")
    result = ran("repair")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.splitlines() == ["epoch 2: repaired", EQUAL.replace("epoch 1", "epoch 2")]
    assert ran.backfill.store.pinned(2).repair.keys == (("7",), ("8",))
    engine.starts = 0
    assert "there is nothing to repair" in ran("repair").stdout
    assert engine.starts == 0


def test_a_view_that_still_differs_after_its_repair(ran, engine):
    engine.missing = [["7"], ["7"]]
    ran("verify")
    result = ran("repair")
    assert result.exit_code == 1
    assert "still differs" in result.stderr


def test_an_epoch_that_is_pinned_already_is_run_before_the_repair(ran, engine):
    engine.missing = [["7"]]
    ran("verify")
    engine.failures = [RuntimeError("died")]
    assert ran("run").exit_code == 1
    result = ran("repair")
    assert result.stdout.splitlines()[:2] == ["epoch 2: was pinned before; committed", "epoch 3: repaired"]
    assert result.exit_code == 0


def test_the_status_says_when_the_view_was_verified_and_whether_it_is_right(ran, engine):
    assert "verified" not in ran("status").stdout
    ran("verify")
    assert "\nverified    verified at epoch 1, " in ran("status").stdout
    engine.missing = [["7"]]
    ran("verify")
    assert "\nverified    differs from its query at epoch 1, " in ran("status").stdout
    status = json.loads(ran("status", "--json").stdout)
    assert (status["verified"]["equal"], status["verification_waits"]) == (False, False)


def test_verify_before_the_first_epoch_starts_no_spark(created, engine):
    fails(created("verify"), "nothing to verify")
    assert engine.starts == 0
