"""Requesters: one task run is one requester, in each of its tries."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.job.requester import Requester, is_task_run, possible_task_runs

TASK = Requester(dag_id="d", run_id="r", task_id="t", map_index=2)


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
        (TASK.model_copy(update={"map_index": 0}), "d.t[0] of run r"),
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


def test_a_user_at_a_terminal_is_no_task_run():
    assert not Requester(user="vera").is_task_run


def test_records_of_task_runs_and_of_users_are_distinguished():
    """The barrier log keeps the text alone."""
    assert is_task_run(str(TASK))
    assert not is_task_run(str(Requester(user="vera@host")))
    assert not is_task_run(str(Requester()))


def test_a_task_run_is_found_again_from_its_text_whatever_dots_its_ids_have():
    who = Requester(dag_id="a.b", task_id="group.finish", run_id="scheduled of run 1")
    assert who in list(possible_task_runs(str(who)))
    assert len(list(possible_task_runs(str(who)))) == 3
    assert list(possible_task_runs("vera.b")) == []
