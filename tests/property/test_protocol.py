"""Random histories through the whole protocol: real upstream, real control tables, the engine in memory."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_backfill_provider import crash_points, mutations
from airflow_backfill_provider.crash_points import CrashPoint
from tests.builders import PAID
from tests.property.memory_engine import Backfilling

IDS = [None, *range(8)]
STEPS = st.one_of(
    st.tuples(st.just("add"), st.sampled_from(IDS)),
    st.tuples(st.just("change"), st.sampled_from(IDS)),
    st.tuples(st.just("remove"), st.sampled_from(IDS)),
    st.tuples(st.just("rekey"), st.sampled_from(IDS), st.sampled_from(IDS)),
    st.tuples(st.just("epoch")),
    st.tuples(st.just("epoch")),
    st.tuples(st.just("die"), st.sampled_from(CrashPoint)),
    st.tuples(st.just("pause"), st.booleans()),
    st.tuples(st.just("throttle"), st.sampled_from([None, 0, 1, 2, 3])),
)


class DiedError(Exception):
    """The process is gone."""


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


def epoch(backfilling, point=None):
    """Inject and run an epoch, which dies at a point if one is given."""

    def callback(reached):
        if reached is point:
            raise DiedError

    crash_points.install(callback)
    try:
        barrier = backfilling.ask().barrier
        if barrier is not None:
            backfilling.run(barrier)
    except DiedError:
        return
    finally:
        crash_points.install(None)
    backfilling.assert_truth()


@given(st.lists(st.sampled_from(IDS), max_size=5, unique=True), st.lists(STEPS, min_size=4, max_size=10))
@settings(max_examples=6)
def test_the_view_is_the_query_whatever_happens(initial, steps):
    """I1 after every epoch that ended, I2 through every crash, I4 to the end."""
    with TemporaryDirectory() as folder:
        backfilling = Backfilling(Path(folder), query=PAID, rate_limit=2)
        backfilling.orders.add(*initial)
        backfilling.create()
        for kind, *arguments in steps:
            if kind in {"epoch", "die"}:
                epoch(backfilling, *arguments)
            elif kind == "pause":
                change = mutations.pause_job if arguments[0] else mutations.resume_job
                change(store=backfilling.store, requested_by="x")
            elif kind == "throttle":
                mutations.throttle_job(*arguments, store=backfilling.store, requested_by="x")
            else:
                write(backfilling, kind, *arguments)
        mutations.resume_job(store=backfilling.store, requested_by="x")
        mutations.throttle_job(3, store=backfilling.store, requested_by="x")
        backfilling.finish()
        assert backfilling.store.state().completed
        paid = [(i, 100 * amount) for i, (status, amount) in backfilling.orders.rows.items() if status == "paid"]
        assert sorted(backfilling.rows(), key=str) == sorted(paid, key=str)
