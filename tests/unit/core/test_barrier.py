"""Barriers: what their digest covers, and that they survive the barrier log."""

from __future__ import annotations

import datetime as dt

import pytest
from pydantic import ValidationError

from airflow_backfill_provider.core.barrier import (
    Barrier,
    ChangeFilter,
    EpochCommit,
    Mutation,
    PinnedChunk,
    PinnedMutation,
    Requester,
    digest,
)
from tests.builders import NOW, barrier_of, commit_of, window_of

TASK = Requester(dag_id="d", run_id="r", task_id="t", map_index=2)

DECIDING = {
    "job": "other",
    "incarnation": "b2",
    "epoch": 2,
    "prev_epoch": 7,
    "upstream": [
        window_of(table_id="other"),
        window_of(from_version=0, to_version=1),
        window_of(to_version=1),
    ],
    "definition": "e" * 32,
    "chunk": [
        None,
        PinnedChunk(after=("5",), up_to=None),
        PinnedChunk(after=("5",), up_to=("10",)),
        PinnedChunk(after=None, up_to=("9",)),
        PinnedChunk(after=(None,), up_to=("9",)),
    ],
    "changes": [
        ChangeFilter(let_through="none"),
        ChangeFilter(let_through="all"),
        ChangeFilter(let_through="up_to", position=("6",)),
        ChangeFilter(let_through="up_to", position=(None,)),
    ],
}
NOT_DECIDING = {
    "rate_limit": [None, 0, 7],
    "paused": True,
    "mutations": [
        (PinnedMutation(mutation=Mutation.PAUSE, requested_by="somebody", requested_at=NOW),),
    ],
    "settings_sequence": 9,
    "warnings": [("careful",)],
    "injected_by": [TASK, Requester(user="somebody")],
    "injected_at": NOW + dt.timedelta(days=1),
}


def cases(fields):
    return [
        (name, value) for name, values in fields.items() for value in (values if isinstance(values, list) else [values])
    ]


def test_every_field_is_known_to_decide_or_not():
    assert set(DECIDING) | set(NOT_DECIDING) == set(Barrier.model_fields)


@pytest.mark.parametrize(("field", "value"), cases(DECIDING))
def test_the_digest_covers_everything_that_decides_rows(field, value):
    """I2: two barriers with one digest write the same rows."""
    assert barrier_of(**{field: value}).digest != barrier_of().digest


@pytest.mark.parametrize(("field", "value"), cases(NOT_DECIDING))
def test_the_digest_ignores_who_asked_and_when_and_why(field, value):
    assert barrier_of(**{field: value}).digest == barrier_of().digest


def test_the_digests_of_different_barriers_are_all_different():
    digests = {barrier_of(**{field: value}).digest for field, value in cases(DECIDING)}
    assert len(digests) == len(cases(DECIDING))


def test_a_barrier_survives_the_barrier_log():
    barrier = barrier_of(
        3,
        chunk=PinnedChunk(after=("ü'\"\\\u2028\x85", None), up_to=(None, "")),
        changes=ChangeFilter(let_through="up_to", position=("ü'\"\\\u2028\x85", None)),
        rate_limit=None,
        mutations=(
            PinnedMutation(mutation=Mutation.THROTTLE, value=None, requested_by="o'brien", requested_at=NOW),
            PinnedMutation(mutation=Mutation.RESUME, requested_by=str(TASK), requested_at=NOW),
        ),
        warnings=("two\nlines",),
        injected_by=TASK,
        injected_at=NOW + dt.timedelta(microseconds=1),
    )
    read = Barrier.model_validate_json(barrier.model_dump_json())
    assert read == barrier
    assert read.digest == barrier.digest


def test_a_commit_survives_the_barrier_log():
    commit = commit_of(barrier_of(), seconds={"changes": 0.1, "snapshot": 1e-9})
    assert EpochCommit.model_validate_json(commit.model_dump_json()) == commit


@pytest.mark.parametrize("model", [Barrier, EpochCommit])
def test_a_record_with_a_field_of_another_version_is_refused(model):
    """I6: a newer package's record is not half understood."""
    record = barrier_of() if model is Barrier else commit_of(barrier_of())
    with pytest.raises(ValidationError, match="new_field"):
        model(**record.model_dump(), new_field=1)


def test_a_pinned_barrier_cannot_be_changed():
    with pytest.raises(ValidationError):
        barrier_of().epoch = 2


@pytest.mark.parametrize(
    ("let_through", "to_version", "applies"),
    [("none", 5, False), ("up_to", 5, True), ("all", 5, True), ("up_to", 3, False), ("all", 3, False)],
)
def test_changes_are_read_only_if_some_may_pass_and_there_is_a_version(let_through, to_version, applies):
    barrier = barrier_of(
        changes=ChangeFilter(let_through=let_through), upstream=window_of(from_version=3, to_version=to_version)
    )
    assert barrier.applies_changes is applies


# --- requesters -----------------------------------------------------------------------------------


def test_two_requests_of_one_task_run_are_equal():
    """A retry and a cleared task find the barrier that the first try pinned."""
    assert Requester(dag_id="d", run_id="r", task_id="t", map_index=2) == TASK
    assert TASK.is_task_run


@pytest.mark.parametrize("change", [{"dag_id": "e"}, {"run_id": "s"}, {"task_id": "u"}, {"map_index": 3}])
def test_requests_of_different_task_runs_are_different(change):
    assert TASK.model_copy(update=change) != TASK


@pytest.mark.parametrize(
    ("requester", "text"),
    [
        (TASK, "d.t[2] of run r"),
        (
            Requester(dag_id="d", run_id="scheduled__2026-01-01T00:00:00+00:00", task_id="t"),
            "d.t of run scheduled__2026-01-01T00:00:00+00:00",
        ),
        (Requester(user="vera@host"), "vera@host"),
        (Requester(), "unknown"),
    ],
)
def test_a_requester_reads_well(requester, text):
    assert str(requester) == text


def test_somebody_at_a_terminal_is_no_task_run():
    assert not Requester(user="vera").is_task_run


# --- digests --------------------------------------------------------------------------------------


def test_a_digest_does_not_depend_on_the_order_of_fields():
    assert digest({"a": 1, "b": [1, None]}) == digest({"b": [1, None], "a": 1})
    assert digest({"a": [1, 2]}) != digest({"a": [2, 1]})


def test_a_digest_tells_null_from_the_word():
    assert len({digest(value) for value in (None, "null", "", [None], 0, False)}) == 6


def test_a_digest_takes_any_text():
    assert digest("\ud800") != digest("\ud801")
