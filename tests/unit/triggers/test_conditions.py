"""What a sensor waits for."""

from __future__ import annotations

import datetime as dt
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_backfill_provider.core.progress import BackfillState, Completed, InProgress, NotStarted
from airflow_backfill_provider.core.requester import Requester
from airflow_backfill_provider.triggers.conditions import Verified, VnodesCompleted
from airflow_backfill_provider.verification import verifier
from tests.plain_engine import CountingEngine
from tests.unit.stand_in import Lake


def test_vnodes_are_completed_once_each_of_them_is(created: Lake):
    """Under an arrangement each completes alone."""
    settings = created.backfill.settings()
    progress = (Completed(None, 0), Completed((7,), 3), InProgress((9,), 2), NotStarted())
    reader: Any = SimpleNamespace(state=lambda: BackfillState(epoch=5, vnodes=progress))

    notes = {vnodes: VnodesCompleted(vnodes).look(reader, settings) for vnodes in [(0, 1), (1, 2), ("2-3",), (0, 3)]}

    assert notes[0, 1].value == {"vnodes": "0-1", "epoch": 5}
    assert [notes[vnodes].value for vnodes in [(1, 2), ("2-3",), (0, 3)]] == [None] * 3
    assert "vnodes 2 of job small_orders are not completed" in notes[1, 2].note


class LateEngine(CountingEngine):
    """Ends each comparison just now, or some time ago."""

    ago = dt.timedelta(0)

    def compare(self, *arguments: Any) -> Any:
        compared = super().compare(*arguments)
        return compared.model_copy(update={"compared_at": dt.datetime.now(dt.UTC) - self.ago})


@pytest.fixture
def ran(created: Lake) -> Lake:
    """The job, one epoch of which is committed."""
    created.epochs(1)
    return created


def verify(lake: Lake, *missing: str, ago: dt.timedelta = dt.timedelta(0)) -> None:
    engine = LateEngine([missing])
    engine.ago = ago
    verifier.verify_job(lake.backfill, engine=lambda: engine, requester=Requester(user="vera"), anew=True)


def test_a_rebuilt_view_is_not_verified(ran: Lake):
    verify(ran)
    backfill = ran.backfill
    newest = backfill.store.verifications.newest_finished(backfill.settings().incarnation)
    assert newest is not None
    settings = backfill.settings().model_copy(update={"incarnation": "another"})
    assert Verified(None, None).look(backfill.store, settings).value is None
