"""Repairing what a verification found to differ."""

from __future__ import annotations

import pytest

from airflow_backfill_provider import protocol
from airflow_backfill_provider.core.errors import (
    EpochFailedError,
    ViewDiffersError,
)
from airflow_backfill_provider.core.job.requester import Requester
from airflow_backfill_provider.jobs.verification import verifier
from airflow_backfill_provider.protocol import repairs
from tests.plain_engine import CountingEngine
from tests.unit.jobs.verification.verifying import VERA, Watching, created_job, epoch, nine_orders, verify

pytestmark = pytest.mark.slow  # whole epochs through Delta tables


@pytest.fixture
def backfill(lake):
    nine_orders(lake)
    return created_job(lake)


def test_a_view_that_differs_is_refused_and_repaired(backfill):
    epoch(backfill)
    found = verify(backfill, "1")
    with pytest.raises(ViewDiffersError, match="as of epoch 1: 1 keys in 1 vnodes; repair the view"):
        verifier.require_equal(backfill, found)
    ran: list[int] = []
    redone = repairs.repair_what_differs(
        backfill, engine=CountingEngine, requester=VERA, on_epoch=lambda barrier: ran.append(barrier.epoch)
    )
    verifier.require_equal(backfill, redone)
    assert (ran, redone.pinned.epoch, redone.pinned.number) == ([2], 2, 2)
    assert backfill.store.pinned(2).repair.keys == (("1",),)


def test_a_repair_is_done_by_the_epoch_after_one_that_is_already_pinned(backfill):
    """The pinned epoch was planned without the repair. The view that differed is verified again."""
    epoch(backfill)
    verify(backfill, "1")
    protocol.inject_barrier(store=backfill.store, upstream=backfill.upstream, requester=Requester(user="otto"))
    ran: list[int] = []
    redone = repairs.repair_what_differs(
        backfill, engine=CountingEngine, requester=VERA, on_epoch=lambda barrier: ran.append(barrier.epoch)
    )
    assert (ran, redone.equal, redone.pinned.epoch) == ([2, 3], True, 3)
    assert [bool(backfill.store.pinned(number).repair) for number in (1, 2, 3)] == [False, False, True]


def test_a_task_run_that_has_pinned_an_epoch_repairs_with_another_one(backfill):
    task = Requester(dag_id="d", run_id="r", task_id="t")
    epoch(backfill)
    protocol.run_next_epoch(
        store=backfill.store, upstream=backfill.upstream, requester=task, engine=lambda _: CountingEngine()
    )
    verify(backfill, "1")
    redone = repairs.repair_what_differs(backfill, engine=CountingEngine, requester=task)
    assert (redone.pinned.epoch, backfill.store.pinned(3).repair.keys) == (3, (("1",),))


def test_a_repair_is_verified_by_a_verification_that_began_afterwards(backfill):
    """A verification that is half done compares the view as it was before."""
    epoch(backfill)
    verify(backfill, "1")
    half = verifier.begin_verification(backfill, requester=VERA, anew=True)
    redone = repairs.repair_what_differs(backfill, engine=CountingEngine, requester=VERA)
    assert (half.pinned.epoch, redone.pinned.epoch, redone.pinned.number) == (1, 2, 3)


def test_nothing_is_repaired_if_nothing_differs(backfill):
    epoch(backfill)
    found = verify(backfill)
    assert repairs.ask_for_repair(backfill, requested_by="vera") is None
    assert repairs.repair_what_differs(backfill, engine=Watching, requester=VERA) == found
    assert (backfill.store.last_epoch(), backfill.settings().sequence) == (1, 1)


def test_a_repair_is_by_vnode_if_too_many_keys_differ(backfill, monkeypatch):
    epoch(backfill)
    verify(backfill, "1", "2")
    monkeypatch.setattr(verifier, "MOST_KEYS", 1)
    asked = repairs.ask_for_repair(backfill, requested_by="vera")
    assert asked is not None
    assert (len(asked.repair.vnodes) >= 1, asked.repair.keys) == (True, ())


def test_a_repair_that_no_epoch_does_is_a_retryable_error(backfill, monkeypatch):
    epoch(backfill)
    verify(backfill, "1")
    nothing = protocol.Injection(None, reason="nothing to do")
    monkeypatch.setattr(protocol.EpochLoop, "step", lambda _: nothing)
    with pytest.raises(
        EpochFailedError, match="no epoch of job paid_orders carried out the repair that record 2 of its settings"
    ) as caught:
        repairs.repair_what_differs(backfill, engine=CountingEngine, requester=VERA)
    assert caught.value.retryable
