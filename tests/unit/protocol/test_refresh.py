"""What an epoch computes that may choose: decided from the upstream's log, and only once its view is finished."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_backfill_provider.core import refresh_cost
from airflow_backfill_provider.core.refresh_cost import EpochCost
from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.core.scan.progress import Completed, InProgress
from airflow_backfill_provider.jobs.rate import NextLimit
from airflow_backfill_provider.protocol.decision import EpochInputs, decide_epoch, next_barrier
from airflow_backfill_provider.protocol.refresh import chosen_refresh
from airflow_backfill_provider.strategies.base import NextChunk
from tests.builders import NOW, Orders, barrier_of, commit_of, job_of, settings_of, window_of
from tests.unit.protocol.test_decision import WHO
from tests.unit.strategies.scan_states import state_of

MEDIAN = "SELECT status, percentile(amount, 0.5) AS median FROM upstream GROUP BY status"
NOTHING = NextChunk(1000)


def finished(**job):
    """A job after its first epoch, which read all of version 3."""
    fields = {"query": MEDIAN, "strategy": "snapshot", "visibility": "on_finish", "refresh": "auto", **job}
    settings = settings_of(job_of(**fields), strategy="snapshot", shape="group")
    previous = barrier_of(1, read_before=(), parts=(), upstream=window_of(-1, 3))
    return EpochInputs(
        history=[settings],
        state=state_of(*[Completed(None, 9)] * 4, epoch=1),
        previous=previous,
        commit=commit_of(previous, rows_read=36),
        last_epoch=1,
    )


def decided(inputs):
    return decide_epoch(inputs, NOTHING, Offset(9), may_wait=False, limit=NextLimit(inputs.settings.rate.fixed))


@pytest.fixture
def orders(tmp_path, monkeypatch):
    """A table of nine rows after version 3, to which versions 4 to 6 add one each; three changes cost as the whole."""
    monkeypatch.setitem(refresh_cost.EPOCH_COSTS, "slice", EpochCost(fixed=0, row=0, change=5))
    orders = Orders(tmp_path)
    for i in range(7):
        orders.add(*range(i * 10, i * 10 + (3 if i < 3 else 1)))
    return orders.table


@pytest.mark.parametrize(("version", "whole"), [(4, False), (5, False), (6, True)])
def test_an_epoch_computes_what_costs_less(orders, version, whole):
    inputs = finished()
    chosen = chosen_refresh(inputs, decided(inputs), orders, Offset(version))
    assert chosen is not None
    assert chosen.whole is whole


def test_the_choice_is_in_the_barrier(orders):
    """I2: every attempt computes the same."""
    inputs = finished()
    chosen = chosen_refresh(inputs, decided(inputs), orders, Offset(6))
    what = replace(decided(inputs), refresh=chosen)
    pinned = next_barrier(inputs, what, window_of(3, 6), requester=WHO, now=NOW)
    assert pinned.refresh == chosen
    assert pinned.computes_whole


def test_a_job_that_does_not_ask_has_no_choice(orders):
    inputs = finished(refresh="incremental")
    assert chosen_refresh(inputs, decided(inputs), orders, Offset(6)) is None


def test_a_view_that_is_not_finished_is_not_computed_whole(orders):
    """Some history is unread, so the view is not yet the query over all rows."""
    inputs = finished()
    unread = EpochInputs(
        history=inputs.history,
        state=state_of(*[InProgress((0, 1), 9)] * 4, epoch=1),
        previous=inputs.previous,
        commit=inputs.commit,
        last_epoch=1,
    )
    assert decided(unread).needs_changes
    assert chosen_refresh(unread, decided(unread), orders, Offset(6)) is None
