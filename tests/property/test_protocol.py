"""Random histories through the whole protocol: real upstream, real control tables, the engine in memory."""

from __future__ import annotations

import itertools
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_backfill_provider import protocol
from airflow_backfill_provider.core.epoch.crash_points import CrashPoint
from airflow_backfill_provider.core.job.requester import Requester
from airflow_backfill_provider.core.job.visibility import Visibility
from airflow_backfill_provider.jobs import mutations
from airflow_backfill_provider.strategies.arrangement.files import ArrangementFiles
from airflow_backfill_provider.strategies.arrangement.location import location_of
from tests.builders import PAID
from tests.dying import died
from tests.property.backfilling import Backfilling
from tests.variants import exhaustive

pytestmark = pytest.mark.slow  # whole epochs through Delta tables

IDS = [None, *range(8)]
VNODE_COUNTS = (1, 3, 7)
STEPS = st.one_of(
    st.tuples(st.just("add"), st.sampled_from(IDS)),
    st.tuples(st.just("change"), st.sampled_from(IDS)),
    st.tuples(st.just("remove"), st.sampled_from(IDS)),
    st.tuples(st.just("rekey"), st.sampled_from(IDS), st.sampled_from(IDS)),
    st.tuples(st.just("epoch")),
    st.tuples(st.just("epoch")),
    st.tuples(st.just("shared"), st.randoms(use_true_random=False)),
    st.tuples(st.just("shared"), st.randoms(use_true_random=False)),
    st.tuples(st.just("die"), st.sampled_from(CrashPoint)),
    st.tuples(st.just("die sharing"), st.sampled_from(CrashPoint), st.randoms(use_true_random=False)),
    st.tuples(st.just("pause"), st.booleans()),
    st.tuples(st.just("throttle"), st.sampled_from([None, 0, 1, 2, 3, "auto"])),
    st.tuples(st.just("rescale"), st.integers(1, max(VNODE_COUNTS))),
    st.tuples(st.just("repair"), st.sampled_from(IDS), st.integers(0, 2)),
)


def write(backfilling, kind, first, other=None):
    """Write a version of the upstream, if it is possible."""
    orders = backfilling.orders
    if kind == "add" and first not in orders.rows:
        orders.add(first)
    elif kind == "change" and first in orders.rows:
        status, amount = orders.rows[first]
        orders.change([first], status="draft" if amount % 2 else status, amount=amount + 1)
    elif kind == "remove" and first in orders.rows:
        orders.remove(first)
    elif kind == "rekey" and first in orders.rows and first != other:
        orders.rekey({first: other, other: first} if other in orders.rows else {first: other})


def change_settings(backfilling, kind, value, vnode=None):
    """Change the job's settings."""
    asked = {"store": backfilling.store, "requested_by": "x"}
    if kind == "pause":
        (mutations.pause_job if value else mutations.resume_job)(**asked)
    elif kind == "throttle":
        mutations.throttle_job(value, **asked)
    elif kind == "repair":
        mutations.repair_job(keys=[[value]], vnodes=[vnode % backfilling.job.vnode_count], **asked)
    elif backfilling.store.settings().strategy != "no_shuffle":
        mutations.rescale_job(min(value, backfilling.job.vnode_count), **asked)


def share(backfilling, barrier, random):
    """Run a barrier's epoch as several task runs do: the changes, then the parts in any order, some of them twice."""
    assert backfilling.changes(barrier) is None or not barrier.parts
    parts = [*range(len(barrier.parts)), *random.sample(range(len(barrier.parts)), len(barrier.parts) // 2)]
    random.shuffle(parts)
    commits = [backfilling.part(barrier, part) for part in parts]
    assert backfilling.store.commit_of(barrier.epoch) == (commits[-1] if commits else backfilling.store.commits()[-1])


def epoch(backfilling, point=None, random=None):
    """Inject and run an epoch, whole or shared, which dies at a point if one is given; hold I1 and I3 if it ended."""
    before = backfilling.store.state()

    def work():
        barrier = backfilling.ask().barrier
        if barrier is not None:
            backfilling.run(barrier) if random is None else share_what_is_left(backfilling, barrier, random)

    if not died(point, work):
        backfilling.assert_truth()
    before.require_successor(backfilling.store.state(), backfilling.store.settings().position_order)


def share_what_is_left(backfilling, barrier, random):
    if backfilling.store.reports(barrier) or backfilling.store.commit_of(barrier.epoch):
        # Others began: run each step that is not done.
        backfilling.changes(barrier)
        for part in random.sample(range(len(barrier.parts)), len(barrier.parts)):
            backfilling.part(barrier, part)
        assert backfilling.store.commit_of(barrier.epoch) is not None
    else:
        share(backfilling, barrier, random)


def play(backfilling, steps):
    """Let a history happen, then run the backfill to its end."""
    for kind, *arguments in steps:
        if kind == "epoch":
            epoch(backfilling)
        elif kind == "shared":
            epoch(backfilling, None, *arguments)
        elif kind in {"die", "die sharing"}:
            epoch(backfilling, *arguments)
        elif kind in {"pause", "throttle", "rescale", "repair"}:
            change_settings(backfilling, kind, *arguments)
        else:
            write(backfilling, kind, *arguments)
    change_settings(backfilling, "pause", False)
    change_settings(backfilling, "throttle", 3)
    backfilling.finish()
    assert backfilling.store.state().completed
    paid = [(i, 100 * amount) for i, (status, amount) in backfilling.orders.rows.items() if status == "paid"]
    assert sorted(backfilling.rows(), key=str) == sorted(paid, key=str)
    finished = protocol.finish_job(store=backfilling.store, requested_by="x")
    assert not ArrangementFiles(location_of(finished)).exists()


HISTORIES = st.lists(STEPS, min_size=4, max_size=12)
INITIAL = st.lists(st.sampled_from(IDS), max_size=7, unique=True)


def in_numbers(few, many):
    """Let `make test` play a few histories, and `make test-exhaustive` many."""
    return pytest.mark.parametrize("histories", [few, exhaustive(many)])


@in_numbers(8, 30)
def test_the_view_is_the_query_whatever_happens(histories):
    """I1 after every epoch that ended, I2 through every crash, I4 to the end."""
    settings(max_examples=histories)(given(INITIAL, HISTORIES, st.sampled_from(Visibility))(_view_is_the_query))()


def _view_is_the_query(initial, steps, visibility):
    with TemporaryDirectory() as folder:
        backfilling = Backfilling(Path(folder), query=PAID, rate_limit=2, strategy="no_shuffle", visibility=visibility)
        backfilling.orders.add(*initial)
        backfilling.create()
        play(backfilling, steps)


@pytest.mark.exhaustive
@given(
    INITIAL,
    HISTORIES,
    st.sampled_from(VNODE_COUNTS),
    st.integers(1, 3),
    st.sampled_from(
        [
            (["id"], Visibility.EVERY_EPOCH),
            (["id"], Visibility.ON_FINISH),
            (["amount"], Visibility.EVERY_EPOCH),
            (["status", "amount"], Visibility.EVERY_EPOCH),
        ]
    ),
)
@settings(max_examples=32)
def test_the_view_of_an_arrangement_is_the_query_whatever_happens(initial, steps, vnode_count, parallelism, layout):
    """I1 to I4 with a position per vnode, rescales, and rows that move between vnodes."""
    distribution_key, visibility = layout
    with TemporaryDirectory() as folder:
        backfilling = Backfilling(
            Path(folder),
            query=PAID,
            rate_limit=2,
            strategy="arrangement",
            vnode_count=vnode_count,
            parallelism=min(parallelism, vnode_count),
            distribution_key=distribution_key,
            visibility=visibility,
        )
        backfilling.orders.add(*initial)
        backfilling.create()
        play(backfilling, steps)


@pytest.mark.exhaustive
@in_numbers(8, 40)
def test_the_view_of_a_snapshot_is_the_query_whatever_happens(histories):
    """I1 to I4: while files are read, while the log is replayed, and afterwards."""
    settings(max_examples=histories)(given(INITIAL, HISTORIES, st.integers(1, 3))(_view_of_a_snapshot_is_the_query))()


def _view_of_a_snapshot_is_the_query(initial, steps, parallelism):
    with TemporaryDirectory() as folder:
        job = {"strategy": "snapshot", "parallelism": parallelism, "query": PAID, "rate_limit": 2}
        backfilling = Backfilling(Path(folder), **job)
        # Several files.
        for start in range(0, max(len(initial), 1), 3):
            backfilling.orders.add(*initial[start : start + 3])
        backfilling.create()
        play(backfilling, steps)


MEANWHILE = st.one_of(
    st.tuples(st.just("add"), st.sampled_from(IDS)),
    st.tuples(st.just("change"), st.sampled_from(IDS)),
    st.tuples(st.just("remove"), st.sampled_from(IDS)),
    st.tuples(st.just("rekey"), st.sampled_from(IDS), st.sampled_from(IDS)),
    st.tuples(st.just("pause"), st.booleans()),
    st.tuples(st.just("throttle"), st.sampled_from([None, 0, 1, 2])),
    st.tuples(st.just("rescale"), st.integers(1, 3)),
    st.tuples(st.just("repair"), st.sampled_from(IDS), st.integers(0, 2)),
)


def happen(backfilling, steps):
    """Let others do something."""
    for kind, *arguments in steps:
        (change_settings if kind in {"pause", "throttle", "rescale", "repair"} else write)(
            backfilling, kind, *arguments
        )


def outcomes(backfilling, times, most):
    """Run epochs for task runs of several epochs each, with changes by others after each epoch; return the outcomes."""
    times, task = iter(times), 0
    reasons = []
    while len(reasons) < EPOCHS:
        requester = Requester(dag_id="d", run_id=f"run_{task}", task_id="t")
        task += 1
        injection = backfilling.ask(requester, epochs=most)
        if injection.barrier is None:
            reasons.append(injection.reason)
            happen(backfilling, next(times, ()))
            continue
        for done in protocol.run_epochs(
            injection.barrier,
            store=backfilling.store,
            upstream=backfilling.orders.table,
            engine=lambda _: backfilling.engine(),
            epochs=most,
            clock=backfilling.clock,
        ):
            if done.commit is None:
                # The next task run asks at once, and gets the same answer.
                break
            reasons.append("")
            backfilling.assert_truth()
            happen(backfilling, next(times, ()))
            if len(reasons) == EPOCHS:
                break
    return reasons


EPOCHS = 5


@pytest.mark.exhaustive
@given(
    INITIAL,
    st.lists(st.lists(MEANWHILE, max_size=2), min_size=EPOCHS, max_size=EPOCHS),
    st.integers(2, EPOCHS),
    st.sampled_from(
        [("snapshot", Visibility.ON_FINISH), *itertools.product(["no_shuffle", "arrangement"], Visibility)]
    ),
)
@settings(max_examples=16)
def test_several_epochs_in_one_task_run_end_like_as_many_task_runs(initial, times, most, reading):
    """I1 after each epoch, and the same barriers, commits and rows: no state is kept between two epochs."""
    strategy, visibility = reading
    left = []
    for epochs in (1, most):
        with TemporaryDirectory() as folder:
            job = {"strategy": strategy, "visibility": visibility, "vnode_count": 3, "query": PAID, "rate_limit": 2}
            backfilling = Backfilling(Path(folder), **job)
            backfilling.orders.add(*initial)
            backfilling.create()
            reasons = outcomes(backfilling, times, epochs)
            barriers, commits = backfilling.store.log()
            left.append((reasons, [said(b) for b in barriers], [said(c) for c in commits], backfilling.rows()))
    assert left[0] == left[1]


def said(record):
    """The content of a record without its requester, time, incarnation and table."""
    found = record.model_dump(
        exclude={
            "incarnation",
            "digest",
            "definition",
            "injected_by",
            "injected_at",
            "committed_at",
            "watermark",
            "seconds",
        }
    )
    for window in found.get("windows", ()):
        # They differ between two tables with the same history.
        for name in ("table_id", "watermark", "mark"):
            window.pop(name)
    for mutation in found.get("mutations", ()):
        mutation.pop("requested_at")
    return found
