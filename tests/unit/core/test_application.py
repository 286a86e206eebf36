"""The record of a Spark application that outlives the task run which started it."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.application import (
    DONE,
    ERROR_PREFIX,
    FAILED,
    FAILED_FOR_GOOD,
    MESSAGE_PREFIX,
    SPARK_PREFIX,
    ApplicationRecord,
    epoch_application,
    epoch_of_application,
    signal_note,
)
from tests.builders import NOW

RUNNING = ApplicationRecord(name="epoch-7", attempt="a", host="h", pid=1, started_at=NOW, log="/log")


@pytest.mark.parametrize(
    ("step", "part", "name"),
    [
        (None, None, "epoch-7"),
        ("apply_changes", None, "epoch-7-apply-changes"),
        ("read_chunk_part", 0, "epoch-7-read-chunk-part-0"),
    ],
)
def test_each_step_and_part_of_an_epoch_has_its_own_name(step, part, name):
    assert epoch_application(7, step=step, part=part) == name


@pytest.mark.parametrize(
    ("exit_code", "ended", "succeeded", "retryable"),
    [
        (None, False, False, True),
        (DONE, True, True, True),
        (FAILED, True, False, True),
        (FAILED_FOR_GOOD, True, False, False),
        (-9, True, False, True),
    ],
)
def test_the_exit_code_says_how_it_ended_and_whether_another_attempt_may_help(exit_code, ended, succeeded, retryable):
    record = RUNNING.model_copy(update={"exit_code": exit_code})
    assert (record.ended, record.succeeded, record.retryable) == (ended, succeeded, retryable)


def test_a_heartbeat_changes_nothing_else():
    assert RUNNING.with_next_heartbeat().with_next_heartbeat() == RUNNING.model_copy(update={"heartbeat": 2})


def test_a_record_survives_json():
    record = RUNNING.model_copy(update={"said": ("one", "two"), "ended_at": NOW, "exit_code": FAILED})
    assert ApplicationRecord.model_validate_json(record.model_dump_json()) == record


def test_lines_to_the_submitter_are_distinguished_by_their_prefix():
    assert ERROR_PREFIX != SPARK_PREFIX
    assert all(line.startswith(MESSAGE_PREFIX) for line in (ERROR_PREFIX, SPARK_PREFIX))


@pytest.mark.parametrize(
    ("code", "note"),
    [
        (-9, "; it was killed (SIGKILL), most likely because its host or container ran out of memory"),
        (137, "; it was killed (SIGKILL), most likely because its host or container ran out of memory"),
        (-15, "; a signal ended it (SIGTERM)"),
        (134, "; a signal ended it (SIGABRT)"),
        (1, ""),
        (3, ""),
        (255, ""),
        (None, ""),
    ],
)
def test_an_exit_code_says_whether_a_signal_ended_the_application(code, note):
    assert signal_note(code).startswith(note)
    assert bool(signal_note(code)) is bool(note)


@pytest.mark.parametrize(
    ("name", "epoch"),
    [
        ("epoch-12", 12),
        ("epoch-12-apply-changes", None),
        ("epoch-12-read-chunk-part-0", None),
        ("create", None),
        ("epoch-", None),
    ],
)
def test_the_first_epoch_of_an_application_is_in_its_name(name, epoch):
    assert epoch_of_application(name) == epoch


def test_a_failure_names_who_asked_for_it():
    stopped = RUNNING.model_copy(update={"exit_code": 143, "error": "stopped on request", "stopped_by": "d.t of run r"})
    assert stopped.failure == "stopped on request of d.t of run r; trying again is safe"
    assert RUNNING.model_copy(update={"exit_code": 1, "error": "no such key"}).failure == "no such key"
