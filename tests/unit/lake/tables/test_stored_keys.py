"""The keys of all rows of a local table are read without Spark; what is unusual is left to it."""

from __future__ import annotations

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from airflow_backfill_provider.core.scan.keys import KeyField, KeyOrder
from airflow_backfill_provider.lake.tables import stored_keys as module
from airflow_backfill_provider.lake.tables.data_files import DataFiles
from airflow_backfill_provider.lake.tables.stored_keys import StoredKeys
from airflow_backfill_provider.sources.delta.source import DeltaSource
from airflow_backfill_provider.sources.delta.versions import offset_of
from tests.deletion_vectors import added_in, hide

ORDER = KeyOrder((KeyField(name="shop", type="integer"), KeyField(name="sale", type="long")))


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """Two files of three rows each; two rows of the second one are hidden as of version 2."""
    path = tmp_path_factory.mktemp("upstream")
    for start in (0, 3):
        sales = pa.array([*range(start, start + 3)], pa.int64())
        shops = pa.array([None, *[start] * 2], pa.int32())
        write_deltalake(path, pa.table({"sale": sales, "name": ["a"] * 3, "shop": shops}), mode="append")
    hide(path, added_in(path, 1), [0, 2])
    return path


def files(path, version) -> DataFiles:
    return DeltaSource(str(path)).files_at(offset_of(version))


def keys_of(path, version, order=ORDER):
    stored = StoredKeys.of(files(path, version), order)
    assert stored
    seen = stored.of_each_file(lambda keys: [tuple(row.values()) for row in keys.to_pylist()])
    return None if seen is None else sorted(seen, key=len)


def test_keys_come_file_by_file_in_the_keys_order(path):
    assert keys_of(path, 0) == [[(None, 0), (0, 1), (0, 2)]]
    assert len(keys_of(path, 1)) == 2


def test_rows_that_a_deletion_vector_hides_have_no_keys(path):
    assert keys_of(path, 2) == [[(3, 4)], [(None, 0), (0, 1), (0, 2)]]


def test_an_empty_table_has_none(tmp_path):
    write_deltalake(tmp_path, pa.table({"sale": pa.array([], pa.int64()), "shop": pa.array([], pa.int32())}))
    assert not any(keys_of(tmp_path, 0))


def test_texts_are_left_to_spark(path):
    assert StoredKeys.of(files(path, 0), KeyOrder((KeyField(name="name", type="string"),))) is None


def test_very_many_rows_are_left_to_spark(path, monkeypatch):
    monkeypatch.setattr(module, "MOST_ROWS", 5)
    assert StoredKeys.of(files(path, 0), ORDER)
    assert StoredKeys.of(files(path, 1), ORDER) is None


def test_a_file_that_cannot_be_read_is_left_to_spark(path, tmp_path):
    write_deltalake(tmp_path, pa.table({"sale": pa.array([1], pa.int64()), "shop": pa.array([1], pa.int32())}))
    opened = files(tmp_path, 0)
    next(tmp_path.glob("*.parquet")).unlink()
    stored = StoredKeys.of(opened, ORDER)
    assert stored
    assert stored.of_each_file(len) is None
