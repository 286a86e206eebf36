"""
Random chains of changed queries, with changes of the upstream and attempts that die, through the whole protocol.

One of the queries gives other columns.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from deltalake import DeltaTable
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_backfill_provider import protocol
from airflow_backfill_provider.core.epoch.crash_points import CrashPoint
from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.jobs import changed_query
from tests.builders import PAID
from tests.dying import died
from tests.property.backfilling import TESTER, Backfilling
from tests.property.memory_queries import EVERYTHING, ONLY_PAID, QUERIES
from tests.property.test_protocol import IDS, INITIAL, change_settings, write

pytestmark = pytest.mark.slow  # whole epochs through Delta tables

STEPS = st.one_of(
    st.tuples(st.just("add"), st.sampled_from(IDS)),
    st.tuples(st.just("change"), st.sampled_from(IDS)),
    st.tuples(st.just("remove"), st.sampled_from(IDS)),
    st.tuples(st.just("rekey"), st.sampled_from(IDS), st.sampled_from(IDS)),
    st.tuples(st.just("query"), st.sampled_from([EVERYTHING, ONLY_PAID, PAID])),
    st.tuples(st.just("query"), st.sampled_from([EVERYTHING, ONLY_PAID])),
    st.tuples(st.just("repair"), st.sampled_from(IDS), st.integers(0, 2)),
    st.tuples(st.just("epoch"), st.none()),
    st.tuples(st.just("epoch"), st.sampled_from(CrashPoint)),
)


def change_query(backfilling: Backfilling, query: str) -> None:
    backfilling.job = BackfillJob(**{**backfilling.job.model_dump(mode="json"), "query": query})
    changed_query.change_query(
        backfilling.job,
        store=backfilling.store,
        upstream=backfilling.orders.table,
        engine=backfilling.engine,
        requested_by="x",
        clock=backfilling.clock,
    )


def epoch(backfilling: Backfilling, point: CrashPoint | None) -> None:
    """Run an epoch, which dies at a point if one is given; a committed one leaves the query that it was pinned with."""

    def work() -> None:
        store = backfilling.backfill.store
        barrier = protocol.inject_barrier(
            store=store, upstream=backfilling.orders.table, requester=TESTER, clock=backfilling.clock
        ).barrier
        if barrier is not None:
            protocol.run_epoch(barrier, store=store, engine=backfilling.engine(), clock=backfilling.clock)
            assert_is(backfilling, store.settings_for(barrier).job["query"], barrier.upstream.to_offset.number)

    died(point, work)


def assert_is(backfilling: Backfilling, query: str, version: int) -> None:
    """Hold I1: the view is a query over the upstream as of a version, and has its columns."""
    table_id = backfilling.store.settings().upstream.table_id
    rows = backfilling.warehouse.upstream(backfilling.orders.path, table_id, version)
    expected = [output for row in rows if (output := QUERIES[query](row)) is not None]
    assert sorted(map(str, (output for _, output in backfilling.view.rows))) == sorted(map(str, expected))
    found = [field.name for field in DeltaTable(backfilling.view.path).schema().fields]
    assert found == (["id", "cents"] if query == PAID else ["id", "status", "amount"])


@pytest.mark.exhaustive
@given(INITIAL, st.lists(STEPS, min_size=4, max_size=16))
@settings(max_examples=25)
def test_after_any_chain_of_changes_the_view_is_that_of_the_last_query(
    initial: list[int], steps: list[tuple[object, ...]]
) -> None:
    """I1, I2: whatever dies in between, and however often the query changes before an epoch carries it out."""
    with TemporaryDirectory() as folder:
        backfilling = Backfilling(Path(folder), query=EVERYTHING, rate_limit=None, strategy="no_shuffle", vnode_count=3)
        backfilling.orders.add(*initial)
        backfilling.create()
        backfilling.finish()
        protocol.finish_job(store=backfilling.store, requested_by="x")
        for kind, *arguments in steps:
            if kind == "query":
                change_query(backfilling, *arguments)
            elif kind == "epoch":
                epoch(backfilling, *arguments)
            elif kind == "repair":
                change_settings(backfilling, kind, *arguments)
            else:
                write(backfilling, kind, *arguments)
        for _ in range(3):
            epoch(backfilling, None)
        assert_is(backfilling, backfilling.job.query, backfilling.orders.table.latest().number)
