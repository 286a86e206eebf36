"""The facts that a strategy is chosen by, from the statistics of files alone."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_backfill_provider.core.scan.file_statistics import FileStatistics
from airflow_backfill_provider.strategies.inputs import (
    BYTES_PER_SECOND,
    EPOCHS_OF_A_PAUSED_JOB,
    SECONDS_PER_APPLICATION,
    StrategyInputs,
    overlap_of,
)
from tests.builders import Orders, file_of, job_of, order_of

LONG = order_of("long")


def file(lower, upper, rows=10, path="f"):
    return FileStatistics(path=path, row_count=rows, size=rows, lower=(lower,), upper=(upper,))


def unknown(rows=10):
    return FileStatistics(path="u", row_count=rows)


@pytest.mark.parametrize(
    ("files", "overlap"),
    [
        ([], 0),
        ([file(0, 9)], 0),
        ([unknown()], 0),
        ([file(0, 9), file(10, 19), file(20, 29)], 0),
        ([file(0, 99), file(0, 99), file(0, 99)], 1),
        ([unknown(), unknown()], 1),
        ([unknown(), file(0, 9)], 1),
        ([file(0, 9), file(9, 19)], 1),
        ([file(0, 9), file(5, 14), file(10, 19)], 2 / 3),
        ([file(None, 3), file(None, 9)], 1),
        ([file(None, None), file(0, 9)], 0),
        ([file(0, 9, rows=0), file(0, 9, rows=0)], 0),
        ([file(0, 9), file(5, 5, rows=0)], 0),
    ],
)
def test_overlap_is_the_share_of_other_rows_in_files_that_reach_across_ones_own(files, overlap):
    assert overlap_of(files, LONG) == pytest.approx(overlap)


def test_overlap_follows_the_keys_direction():
    descending = order_of(("long", True))
    files = [file_of("a", [(1,), (2,)], descending), file_of("b", [(3,), (4,)], descending)]
    assert overlap_of(files, descending) == 0


FILES = st.lists(
    st.builds(
        lambda ends, rows: file(min(ends), max(ends), rows) if ends else unknown(rows),
        st.none() | st.tuples(st.integers(0, 12), st.integers(0, 12)),
        st.integers(0, 9),
    ),
    max_size=8,
)


@settings(max_examples=50)
@given(FILES)
def test_overlap_agrees_with_looking_at_every_pair_of_files(files):
    def overlapping(one, other):
        return not one.lower or not other.lower or (one.lower <= other.upper and other.lower <= one.upper)

    beside = sum(
        one.row_count * other.row_count
        for i, one in enumerate(files)
        for j, other in enumerate(files)
        if i != j and overlapping(one, other)
    )
    others = sum(
        one.row_count * other.row_count for i, one in enumerate(files) for j, other in enumerate(files) if i != j
    )
    assert overlap_of(files, LONG) == pytest.approx(beside / others if others else 0)


# --- what is known of a job and its upstream ------------------------------------------------------


@pytest.fixture(scope="module")
def upstream(tmp_path_factory):
    """Ten orders in one file, and five in another that reaches across the first one; nothing here changes it."""
    orders = Orders(tmp_path_factory.mktemp("orders"))
    orders.add(*range(10))
    orders.add(*range(8, 13))
    return orders.table


def known(upstream, *, distribution_key=(), **job):
    definition = {"path": upstream.location, "key": ["id"], "distribution_key": distribution_key}
    return StrategyInputs.of(job_of(upstream=definition, **job), upstream, upstream.at())


def test_files_and_rows_are_those_of_the_described_version(upstream):
    found = known(upstream)
    assert (len(found.files), found.rows, found.overlap) == (2, 15, 1.0)
    assert found.bytes == sum(stored.size for stored in found.files) > 0
    assert known(upstream, restrict_to={"keys": {"after": [9]}}).rows < 15


@pytest.mark.parametrize(
    ("query", "distribution_key", "share"),
    [
        ("SELECT * FROM upstream", [], 1),
        ("SELECT id FROM upstream", [], 1 / 3),
        ("SELECT id FROM upstream WHERE status = 'paid'", [], 2 / 3),
        ("SELECT id FROM upstream", ["amount"], 2 / 3),
        ("SELECT status FROM upstream", [], 2 / 3),
    ],
)
def test_used_columns_are_those_of_the_query_of_the_key_and_of_vnodes(upstream, query, distribution_key, share):
    found = known(upstream, query=query, distribution_key=distribution_key)
    assert found.used_share == pytest.approx(share)


# --- costs ----------------------------------------------------------------------------------------


def inputs(rows=200, **job):
    return StrategyInputs(job=job_of(**job), files=[file(0, 9)], rows=rows, overlap=0, used_share=1)


@pytest.mark.parametrize(
    ("rows", "rate_limit", "epochs"),
    [
        (200, None, 1),
        (200, 200, 1),
        (201, 200, 2),
        (200, 1, 200),
        (0, 1, 1),
        (200, 0, EPOCHS_OF_A_PAUSED_JOB),
        (0, None, 1),
    ],
)
def test_an_epoch_reads_as_many_rows_as_its_rate_limit(rows, rate_limit, epochs):
    assert inputs(rows, rate_limit=rate_limit).epochs == epochs


@pytest.mark.parametrize(("parallelism", "runs"), [(1, 11), (3, 41)])
def test_parallel_task_runs_are_more_applications_each_epoch(parallelism, runs):
    """One creates the job; then, if task runs share an epoch, one for the changes and one for each part."""
    cost = inputs(rate_limit=20).cost(7, parallelism=parallelism)
    assert (cost.rows, cost.bytes, cost.epochs, cost.spark_runs) == (200, 7, 10, runs)


@pytest.mark.parametrize("parallelism", [1, 4])
def test_parallel_task_runs_share_what_is_moved_and_each_epoch_takes_its_time(parallelism):
    """An hour of moving, and the starts of the ten epochs and of the creation."""
    cost = inputs(rate_limit=20).cost(3600 * BYTES_PER_SECOND, parallelism=parallelism)
    assert cost.hours == pytest.approx(1 / parallelism + 11 * SECONDS_PER_APPLICATION / 3600, abs=0.001)
