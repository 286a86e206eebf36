"""The index of exact keys against plain Python lists, for keys of every type."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.fs as arrow_fs
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_backfill_provider.core.scan.file_statistics import FileStatistics
from airflow_backfill_provider.core.scan.keys import KeyField, KeyOrder, KeyRange
from airflow_backfill_provider.lake.files.key_index import ArrowKeyIndex, arrow_type
from tests.builders import ExactKeys
from tests.strategies import key_columns, keys


@st.composite
def files_of_keys(draw):
    columns = draw(key_columns())
    order = KeyOrder(tuple(KeyField(name=c.name, type=c.type, descending=c.descending) for c in columns))
    files = draw(st.lists(st.lists(keys(columns), min_size=1, max_size=6), min_size=1, max_size=3))
    stored = [key for file in files for key in file]
    bounds = st.none() | st.sampled_from(stored) | keys(columns)
    after, up_to = (draw(bounds), draw(bounds))
    # A bound may be the leading columns of a key, and stands for all keys that begin with them.
    length = st.integers(1, len(columns))
    within = KeyRange(after and after[: draw(length)], up_to and up_to[: draw(length)])
    return order, {f"{number}.parquet": file for number, file in enumerate(files)}, within


@pytest.mark.slow
@given(files_of_keys())
@settings(max_examples=60)
def test_counting_and_finding_keys_agrees_with_plain_lists(drawn):
    """
    All key types, nulls first, each column in its own direction; repeated keys count.

    See docs/concepts/rules.md#the-order-of-keys.
    """
    order, keys_by_file, within = drawn
    oracle = ExactKeys(keys_by_file, order)
    with TemporaryDirectory() as folder:
        for path, some in keys_by_file.items():
            columns = {
                field.name: pa.array([key[i] for key in some], arrow_type(field))
                for i, field in enumerate(order.fields)
            }
            pq.write_table(pa.table(columns), Path(folder) / path)
        storage = arrow_fs.SubTreeFileSystem(folder, arrow_fs.LocalFileSystem())
        index = ArrowKeyIndex(storage, order, {name: name for name in order.names}, {})
        files = [FileStatistics(path=path, row_count=len(some)) for path, some in keys_by_file.items()]
        for file in files:
            assert index.count(file, within) == oracle.count(file, within)
        for some in (files, files[::-1], files[:1]):
            found = oracle.within([file.path for file in some], within)
            for n in (1, 2, len(found) // 2 or 1, len(found), len(found) + 1):
                expected = found[n - 1] if 0 < n <= len(found) else None
                assert index.nth(some, within, max(n, 1)) == (expected if n else None)
