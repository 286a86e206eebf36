"""Random histories of a job while a rebuild grows beside its view, through the whole protocol."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_backfill_provider import protocol
from airflow_backfill_provider.core.epoch.crash_points import CrashPoint
from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.jobs import succession
from tests.builders import PAID
from tests.dying import died
from tests.property.backfilling import TESTER, Backfilling
from tests.property.memory_queries import EVERYTHING
from tests.property.test_protocol import IDS, INITIAL, change_settings, write

pytestmark = pytest.mark.slow  # whole epochs through Delta tables

WHO = st.sampled_from(["served", "growing"])
STEPS = st.one_of(
    st.tuples(st.just("add"), st.sampled_from(IDS)),
    st.tuples(st.just("change"), st.sampled_from(IDS)),
    st.tuples(st.just("remove"), st.sampled_from(IDS)),
    st.tuples(st.just("rekey"), st.sampled_from(IDS), st.sampled_from(IDS)),
    st.tuples(st.just("epoch"), WHO, st.none()),
    st.tuples(st.just("epoch"), WHO, st.none()),
    st.tuples(st.just("epoch"), WHO, st.sampled_from(CrashPoint)),
    st.tuples(st.just("pause"), st.booleans()),
    st.tuples(st.just("throttle"), st.sampled_from([None, 1, 2, 3])),
)


def growing(backfilling):
    """Return the job that grows, as a process opens it; None once it has taken the view's place."""
    return backfilling.backfill.successor


def epoch(backfilling, who, point):
    """Run an epoch of one of both, which dies at a point if one is given; hold I1 for readers of the view."""
    offset = shown(backfilling)

    def work():
        job = backfilling.backfill if who == "served" else growing(backfilling)
        if job is None or not job.store.created():
            return
        barrier = protocol.inject_barrier(
            store=job.store, upstream=backfilling.orders.table, requester=TESTER, clock=backfilling.clock
        ).barrier
        if barrier is not None:
            protocol.run_epoch(barrier, store=job.store, engine=backfilling.engine(), clock=backfilling.clock)

    # An epoch of the served view that died may have written its changes, and the next one completes it.
    if not died(point, work) and who == "served":
        assert_whole(backfilling)
        assert shown(backfilling) >= offset, "a reader goes back in time"


def shown(backfilling):
    """Return the upstream's version that a reader of the view sees, as the newest commit has it."""
    store = backfilling.store
    done = {commit.epoch for commit in store.commits()}
    return max(barrier.upstream.to_offset.number for barrier in store.barriers() if barrier.epoch in done)


def assert_whole(backfilling):
    """Hold I1: the view has all rows of the former query, or of the latter one."""
    store = backfilling.store
    in_force = store.settings()
    if any(commit.incarnation == in_force.incarnation for commit in store.commits()):
        backfilling.assert_truth()
    else:
        assert len(backfilling.rows()) == len(dict(backfilling.view.rows))


def play(backfilling, steps):
    """Let a history happen, then bring the handover to its end."""
    for kind, *arguments in steps:
        if kind == "epoch":
            epoch(backfilling, *arguments)
        elif kind in {"pause", "throttle"}:
            change_settings(backfilling, kind, *arguments)
        else:
            write(backfilling, kind, *arguments)
    change_settings(backfilling, "pause", False)
    change_settings(backfilling, "throttle", 3)
    for _ in range(60):
        if growing(backfilling) is None:
            break
        epoch(backfilling, "growing", None)
        epoch(backfilling, "served", None)
    assert growing(backfilling) is None
    backfilling.finish()
    expected = [(i, status, amount) for i, (status, amount) in backfilling.orders.rows.items()]
    assert sorted(backfilling.rows(), key=str) == sorted(expected, key=str)
    finished = protocol.finish_job(store=backfilling.store, requested_by="x")
    assert finished.job["query"] == EVERYTHING
    assert not Path(finished.first_rows.folder).exists()


@pytest.mark.exhaustive
@given(INITIAL, st.lists(STEPS, min_size=4, max_size=16), st.sampled_from(["no_shuffle", "arrangement", "auto"]))
@settings(max_examples=16)
def test_a_reader_sees_the_former_view_or_the_latter_whatever_happens(initial, steps, strategy):
    """I1 for both, I2 through every crash, and a reader never goes back in time."""
    with TemporaryDirectory() as folder:
        backfilling = Backfilling(Path(folder), query=PAID, rate_limit=None, strategy="no_shuffle", vnode_count=3)
        backfilling.orders.add(*initial)
        backfilling.create()
        backfilling.finish()
        protocol.finish_job(store=backfilling.store, requested_by="x")
        latter = {**backfilling.job.model_dump(mode="json"), "query": EVERYTHING, "strategy": strategy, "rate_limit": 2}
        succession.grow_successor(
            BackfillJob(**latter),
            store=backfilling.store,
            upstream=backfilling.orders.table,
            engine=backfilling.engine,
            requested_by="x",
            clock=backfilling.clock,
        )
        play(backfilling, steps)
