"""Verifying a job: step by step, to the end, and for those who asked for it."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.errors import (
    JobCancelledError,
)
from airflow_backfill_provider.jobs import mutations
from airflow_backfill_provider.jobs.backfill import Backfill
from airflow_backfill_provider.jobs.verification import verifier
from airflow_backfill_provider.protocol import repairs
from tests.builders import job_of
from tests.plain_engine import CountingEngine, make
from tests.unit.jobs.verification.verifying import VERA, Watching, epoch, verify

pytestmark = pytest.mark.slow  # whole epochs through Delta tables


def test_a_verification_that_died_continues_after_the_steps_that_are_done(backfill):
    """Each step has the barrier of the epoch that is verified, also if others were committed since."""
    epoch(backfill)

    def die(_: object) -> None:
        raise KeyboardInterrupt

    first, second = Watching(), Watching()
    with pytest.raises(KeyboardInterrupt):
        verifier.verify_job(backfill, engine=lambda: first, requester=VERA, steps=4, on_step=die)
    epoch(backfill)
    told: list[int] = []
    found = verifier.verify_job(
        backfill, engine=lambda: second, requester=VERA, steps=1, on_step=lambda step: told.append(len(step.compared))
    )
    assert (first.compared, second.compared) == ([(1, (0, 0))], [(1, (n, n)) for n in (1, 2, 3)])
    assert (told, found.pinned.number, found.finished) == ([2, 3, 4], 1, True)
    assert verifier.verify_job(backfill, engine=Watching, requester=VERA).pinned.number == 2, "that one is done"


def test_a_verification_in_between_is_the_newest_result_until_another_is_finished(backfill):
    epoch(backfill)
    done = verify(backfill)
    verifier.begin_verification(backfill, requester=VERA, anew=True)
    assert verifier.newest_result(backfill) == done
    verifier.begin_verification(backfill, requester=VERA, anew=True)
    assert [found.pinned.number for found in backfill.verifications.all()] == [3, 2, 1]


def test_a_requested_verification_is_of_the_epoch_that_carries_it_out(backfill):
    """A verification that is half done compares an epoch from before the request."""
    epoch(backfill)
    half = verifier.begin_verification(backfill, requester=VERA)
    verifier.ask_for_verification(backfill, requested_by="otto")
    epoch(backfill)
    found = verifier.carry_out_waiting(backfill, CountingEngine())
    assert found is not None
    assert (half.pinned.epoch, found.pinned.epoch, str(found.pinned.begun_by)) == (1, 2, "otto")


def test_steps_have_a_number_of_rows_unless_their_number_is_given(backfill, monkeypatch):
    epoch(backfill)
    monkeypatch.setattr("airflow_backfill_provider.core.status.verification.ROWS_PER_STEP", 4)
    assert len(verify(backfill).pinned.steps) == 3, "nine rows"
    assert len(verify(backfill, steps=2).pinned.steps) == 2
    watching = Watching()
    verifier.compare_now(backfill, watching)
    assert watching.compared == [(1, (0, 3))]


@pytest.mark.parametrize(
    ("query", "distribution_key", "by_key"),
    [
        ("SELECT id FROM upstream", ["amount"], True),
        ("SELECT id, amount AS a FROM upstream", ["amount"], False),
        ("SELECT id, amount + 0 AS amount FROM upstream", ["amount"], True),
        ("SELECT amount FROM upstream", ["id"], False),  # in a hidden column
    ],
)
def test_rows_are_compared_by_vnode_if_the_view_has_the_distribution_key(lake, orders, query, distribution_key, by_key):
    upstream = {"path": orders.path, "key": ["id"], "distribution_key": distribution_key}
    backfill = Backfill(job_of(lake, upstream=upstream, query=query))
    make(backfill)
    epoch(backfill)
    assert verifier.begin_verification(backfill, requester=VERA).pinned.by_key is by_key


def test_a_comparison_without_a_request_is_not_recorded(backfill):
    epoch(backfill)
    found = verifier.compare_now(backfill, CountingEngine([["7"]]))
    assert ([key.key for key in found.keys], backfill.verifications.all()) == ([("7",)], [])


def test_a_requested_verification_is_done_once(backfill):
    assert verifier.carry_out_waiting(backfill, CountingEngine()) is None
    asked = verifier.ask_for_verification(backfill, requested_by="vera")
    assert verifier.ask_for_verification(backfill, requested_by="otto") == asked
    assert backfill.read().verification_waits
    epoch(backfill)
    found = verifier.carry_out_waiting(backfill, CountingEngine())
    assert found is not None
    assert (found.equal, found.pinned.epoch, str(found.pinned.begun_by)) == (True, 1, "vera")
    assert verifier.carry_out_waiting(backfill, CountingEngine()) is None
    summary = backfill.read().summary()
    assert (summary.verification_waits, summary.verified is not None and summary.verified.epoch) == (False, 1)


def test_verifications_and_repairs_of_a_cancelled_job_cannot_be_requested(backfill):
    epoch(backfill)
    verify(backfill)
    mutations.cancel_job(store=backfill.store, requested_by="vera")
    with pytest.raises(JobCancelledError):
        verifier.ask_for_verification(backfill, requested_by="vera")
    with pytest.raises(JobCancelledError):
        repairs.ask_for_repair(backfill, requested_by="vera")
    assert verify(backfill).equal
