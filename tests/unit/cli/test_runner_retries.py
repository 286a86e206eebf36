"""Retries of an epoch: when, and how often."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from airflow_backfill_provider.cli import runner
from airflow_backfill_provider.cli.output import console
from airflow_backfill_provider.cli.runner import Runner
from airflow_backfill_provider.cli.views import LineView
from airflow_backfill_provider.core.errors import EpochFailedError, InvalidJobError
from airflow_backfill_provider.core.job.requester import Requester
from airflow_backfill_provider.jobs.backfill import Backfill
from tests.builders import job_of


@pytest.fixture
def waits() -> list[float]:
    return []


@pytest.fixture
def trying(waits: list[float], monkeypatch: pytest.MonkeyPatch) -> Runner:
    monkeypatch.setattr(runner, "RETRY_SECONDS", 2.0)
    return Runner(
        backfill=Backfill(job_of()),
        engine=lambda: pytest.fail("no engine is needed"),
        requester=Requester(user="vera"),
        view=LineView(console()),
        sleep=waits.append,
    )


def failing(error: Exception, times: int) -> Callable[[], Any]:
    left = iter([error] * times)

    def step() -> Any:
        for raised in left:
            raise raised
        return "done"

    return step


def test_each_wait_before_a_retry_is_longer_than_the_one_before(trying, waits):
    with pytest.raises(EpochFailedError):
        trying._retrying(failing(EpochFailedError("the network"), 9))
    assert waits == [2.0, 4.0]


def test_a_retry_that_succeeds_is_no_error_and_is_printed(trying, waits, capsys):
    assert trying._retrying(failing(EpochFailedError("the\nnetwork"), 1)) == "done"
    assert waits == [2.0]
    assert "the network; trying again (1 of 2)" in capsys.readouterr().out


@pytest.mark.parametrize("error", [InvalidJobError("query: no"), RuntimeError("boom")])
def test_a_permanent_error_is_not_retried(trying, waits, error):
    with pytest.raises(type(error)):
        trying._retrying(failing(error, 1))
    assert waits == []
