"""Without Spark it is certain that no two rows have one key, or it is left to Spark."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_backfill_provider.spark.key_numbers import are_single, count_if_single

KINDS = (pa.int64(), pa.int8(), pa.int32())


def table_of(keys) -> pa.Table:
    columns = [*zip(*keys, strict=True)] or [()]
    return pa.table(
        [pa.array(values, kind) for values, kind in zip(columns, KINDS, strict=False)], names=NAMES[: len(columns)]
    )


NAMES = ["shop", "kind", "sale"]


class Files:
    """The keys in some files."""

    def __init__(self, *files) -> None:
        self.files = [*map(table_of, files)]

    def of_each_file(self, seen):
        return [*map(seen, self.files)]


class Unreadable:
    def of_each_file(self, seen):
        del seen


MANY = st.integers(0, 3).flatmap(
    lambda more: st.lists(
        st.lists(
            st.tuples(
                st.integers(-(2**63), 2**63 - 1) | st.integers(-2, 2), *[st.none() | st.integers(-2, 2)] * min(more, 2)
            ),
            max_size=8,
        ),
        max_size=4,
    )
)
"""The keys in some files: of one to three columns."""


@given(MANY)
def test_rows_are_counted_if_no_key_is_there_twice(files):
    keys = [key for file in files for key in file]
    assert count_if_single(Files(*files)) == (len(keys) if len({*keys}) == len(keys) else None)


@given(MANY, st.data())
def test_of_wanted_keys_none_is_there_twice(files, data):
    counts = Counter(key for file in files for key in file)
    wanted = data.draw(st.lists(st.sampled_from(sorted(counts, key=str)))) if counts else []
    assert are_single(Files(*files), table_of(wanted)) == all(counts[key] == 1 for key in wanted)


@pytest.mark.parametrize(
    ("files", "count"),
    [
        ([], 0),
        ([[], []], 0),
        ([[(3,), (4,)], [], [(1,), (2,)]], 4),
        ([[(3,), (5,)], [(4,), (2,)]], 4),
        ([[(1,), (2,)], [(2,), (3,)]], None),
        ([[(1,), (1,), (2,)]], None),
        ([[(1,), (3,)], [(2,), (3,)]], None),
        ([[(None,), (1,)]], 2),
        ([[(None,)], [(None,)]], None),
        ([[(-(2**63),), (2**63 - 1,)]], 2),
    ],
)
def test_files_may_overlap_and_be_in_any_order(files, count):
    assert count_if_single(Files(*files)) == count


def test_a_key_that_is_there_twice_does_not_matter_if_it_is_not_wanted():
    files = Files([(1,), (2,)], [(2,), (4,)])
    assert are_single(files, table_of([(1,), (4,), (4,)]))
    assert not are_single(files, table_of([(4,), (2,)]))
    assert are_single(files, table_of([(3,)]))


def test_files_that_cannot_be_read_are_left_to_spark():
    assert count_if_single(Unreadable()) is None
    assert not are_single(Unreadable(), table_of([(1,)]))
    assert are_single(Unreadable(), table_of([])), "there is nothing to look for"
