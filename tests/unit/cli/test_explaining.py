"""``why``: Spark starts only if somebody agreed."""

from __future__ import annotations

import json

import pytest

from airflow_backfill_provider.cli import explaining
from airflow_backfill_provider.core.errors import RowNotTraceableError
from airflow_backfill_provider.core.status.row_answer import Reason, RowAnswer
from tests.unit.cli.conftest import fails

FOUND = RowAnswer(job="small_orders", key=("1",), reason=Reason.FILTERED, present=False, conditions=("n > 1",))


@pytest.fixture(scope="module")
def as_created(prepare):
    return prepare("create")


@pytest.fixture
def created(as_created, monkeypatch):
    """A job whose questions only Spark can answer."""

    def answer(backfill, key, *, finder=None):
        if finder is None:
            raise RowNotTraceableError("it takes Spark")
        finder()
        return FOUND

    monkeypatch.setattr(explaining, "why", answer)
    return as_created()


@pytest.fixture(autouse=True)
def row_finder(engine, monkeypatch):
    monkeypatch.setattr(type(engine), "row_finder", lambda self: object(), raising=False)


def test_without_a_terminal_nothing_starts(created, engine):
    fails(created("why", "--key", "1"), "it takes Spark; give --yes to start Spark for it")
    assert engine.starts == 0


def test_yes_starts_spark(created, engine):
    result = created("why", "--key", "1", "--yes", "--json")
    assert (result.exit_code, json.loads(result.stdout)["conditions"], engine.starts) == (0, ["n > 1"], 1)


def test_an_answer_that_lacks_only_the_upstreams_commit_is_given_anyway(created, engine, monkeypatch):
    partial = FOUND.model_copy(update={"left_to_spark": "1,000 files"})
    monkeypatch.setattr(explaining, "why", lambda backfill, key, finder=None: partial if finder is None else FOUND)
    result = created("why", "--key", "1")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[-1] == "which commit of the upstream wrote it takes Spark: 1,000 files"
    assert "1,000 files" not in created("why", "--key", "1", "--yes").stdout


@pytest.mark.parametrize(("reply", "starts"), [(True, 1), (False, 0)])
def test_at_a_terminal_the_user_decides(created, engine, monkeypatch, reply, starts):
    monkeypatch.setattr(explaining, "_agrees", lambda error: reply)
    result = created("why", "--key", "1")
    assert (result.exit_code == 0, engine.starts) == (reply, starts)


def test_a_question_that_the_logs_answer_starts_nothing(created, engine, monkeypatch):
    monkeypatch.setattr(explaining, "why", lambda backfill, key: FOUND)
    result = created("why", "--key", "[1]")
    assert (result.exit_code, engine.starts) == (0, 0)
    assert result.stdout.splitlines()[1] == "not met: n > 1"
