"""What is read ahead next: whatever the keys, the ranges of all epochs together have each key of the job once."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import assume, example, given
from hypothesis import strategies as st

from airflow_backfill_provider.core.scan.file_statistics import FileStatistics
from airflow_backfill_provider.core.scan.keys import EVERYTHING, KeyField, KeyOrder, KeyRange
from airflow_backfill_provider.strategies.cdc.next_chunk import MOST_CONNECTIONS, ranges_to_read, rows_left
from tests.builders import in_order, order_of
from tests.strategies import key_columns, keys

TYPES = ("long", "string", "decimal(5,3)", "timestamp", "binary")
ROWS = st.none() | st.integers(1, 200)
ROWS_OF_SAMPLE = st.floats(0, 50) | st.sampled_from([0.0, 0.001, 1.0, 1e9])


@st.composite
def jobs(draw):
    """Draw a key order, keys that exist, a sample of them in order, and the range of keys of a job."""
    columns = draw(key_columns(types=TYPES))
    order = KeyOrder(tuple(KeyField(name=c.name, type=c.type, descending=c.descending) for c in columns))
    existing = in_order(set(draw(st.lists(keys(columns, nullable=False), min_size=1, max_size=40))), order)
    sample = [key for key in existing if draw(st.booleans())]
    bound = st.none() | st.builds(
        lambda key, length: key[:length], st.sampled_from(existing), st.integers(1, len(columns))
    )
    within = KeyRange(draw(bound), draw(bound))
    if within.after is not None and within.up_to is not None:
        # A job of no keys is refused when it is created.
        assume(order.compare(within.after, within.up_to) < 0)
    return order, existing, sample, within


def is_in(key, covered, order):
    """Return whether a key lies in a range, without :meth:`KeyRange.contains`."""

    def at_or_before(bound):
        pair = {key[: len(bound)], bound}
        return in_order(pair, KeyOrder(order.fields[: len(bound)]))[-1] == bound

    begins = covered.after is None or not at_or_before(covered.after)
    return begins and (covered.up_to is None or at_or_before(covered.up_to))


def inner_of(ranges):
    return [covered.up_to for covered in ranges[:-1]]


@given(jobs(), ROWS_OF_SAMPLE, ROWS)
def test_ranges_follow_each_other_within_the_job(job, rows_of_sample, rows):
    order, _, sample, within = job
    ranges = ranges_to_read(
        begin=within.after, within=within, sample=sample, rows_of_sample=rows_of_sample, rows=rows, order=order
    )
    assert 1 <= len(ranges) <= MOST_CONNECTIONS + 1
    assert ranges[0].after == within.after
    assert all(before.up_to == after.after for before, after in pairwise(ranges))
    bounds = inner_of(ranges)
    assert set(bounds) <= {key for key in sample if is_in(key, within, order)}
    assert bounds == in_order(set(bounds), order)
    end = ranges[-1].up_to
    assert end not in bounds
    assert end == within.up_to or (end in sample and is_in(end, within, order))


@given(jobs(), ROWS_OF_SAMPLE)
def test_without_a_limit_everything_is_read_in_ranges_of_about_one_size(job, rows_of_sample):
    order, _, sample, within = job
    ranges = ranges_to_read(
        begin=within.after, within=within, sample=sample, rows_of_sample=rows_of_sample, rows=None, order=order
    )
    assert ranges[-1].up_to == within.up_to
    left = [key for key in sample if is_in(key, within, order)]
    most = -(-len(left) // MOST_CONNECTIONS)
    assert all(sum(is_in(key, covered, order) for key in left) <= most for covered in ranges)


def walk(job, rows_of_sample, rows):
    """Return the ranges of each epoch until nothing is left."""
    order, _, sample, within = job
    begin, epochs = within.after, []
    while not epochs or begin != within.up_to:
        epochs.append(
            ranges_to_read(
                begin=begin, within=within, sample=sample, rows_of_sample=rows_of_sample, rows=rows, order=order
            )
        )
        begin = epochs[-1][-1].up_to
        assert len(epochs) <= len(sample) + 1
    return epochs


# One tenant of a table whose key begins with the tenant; all keys that begin with a bound are of the job.
TENANT = (
    order_of("long", ("long", True)),
    [(1, 9), *((2, i) for i in range(30, 0, -1)), (3, 9)],
    [(1, 9), *((2, i) for i in range(30, 0, -3)), (3, 9)],
    KeyRange((1,), (2,)),
)


@given(jobs(), ROWS_OF_SAMPLE, ROWS)
@example(TENANT, 3.0, 6)
@example(TENANT, 3.0, None)
def test_all_epochs_together_read_each_key_once(job, rows_of_sample, rows):
    order, existing, _, within = job
    ranges = [covered for epoch in walk(job, rows_of_sample, rows) for covered in epoch]
    for key in existing:
        assert sum(is_in(key, covered, order) for covered in ranges) == is_in(key, within, order), key


@given(jobs(), st.floats(1, 50), st.integers(1, 200))
@example(TENANT, 3.0, 6)
@example(TENANT, 3.0, 1)
def test_an_epoch_reads_about_as_many_rows_as_it_should(job, rows_of_sample, rows):
    """At least one part of the sample, so that a tiny rate comes to an end, too."""
    order, _, sample, _ = job
    wanted = max(round(rows / rows_of_sample), 1)
    epochs = walk(job, rows_of_sample, rows)
    counts = [sum(is_in(key, covered, order) for covered in epoch for key in sample) for epoch in epochs]
    assert all(count == wanted for count in counts[:-1])
    assert counts[-1] <= wanted


@given(jobs())
def test_the_rows_that_are_left_are_those_of_files_that_end_after_the_view(job):
    order, existing, sample, _ = job
    files = [
        FileStatistics(path=str(number), row_count=number, lower=key, upper=key)
        for number, key in enumerate(existing, 1)
    ]
    assert rows_left(files, EVERYTHING, order) == sum(range(1, len(existing) + 1))
    for position in sample:
        after = existing[existing.index(position) + 1 :]
        assert rows_left(files, KeyRange(position, None), order) == sum(
            file.row_count for file in files if file.upper in after
        )
