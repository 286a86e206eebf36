"""The rows that a chunk finds in files of the upstream: those of the job's vnodes that no deletion vector hides."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from airflow_backfill_provider.core.scan.keys import EVERYTHING, KeyField, KeyRange
from airflow_backfill_provider.lake.files.vnode_hash import vnodes_of
from airflow_backfill_provider.lake.tables import chunk_keys
from airflow_backfill_provider.lake.tables.chunk_keys import JobVnodes, chunk_files, hashed_fields
from airflow_backfill_provider.sources.delta.source import DeltaSource
from airflow_backfill_provider.sources.delta.versions import offset_of
from tests.builders import job_of, order_of
from tests.deletion_vectors import added_in, hide

ORDER = order_of("long")
FIELD = KeyField(name="k1", type="long")
ROWS = {"k1": list(range(60)), "region": [f"r{number % 5}" for number in range(60)]}
OWN = frozenset({1, 2})


def vnodes(numbers, vnode_count=8):
    return vnodes_of(pa.table({"k1": pa.array(numbers, pa.int64())}), [FIELD], vnode_count).to_pylist()


MINE = [number for number, vnode in enumerate(vnodes(range(60))) if vnode in OWN]
"""The keys of the job's vnodes."""


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """Sixty rows in three files in key order; the first ten of the second file are hidden as of version 3."""
    path = tmp_path_factory.mktemp("upstream")
    for start in range(0, 60, 20):
        write_deltalake(path, pa.table(ROWS).slice(start, 20), mode="append")
    hide(path, added_in(path, 1), range(10))
    return path


def files(path, version):
    return DeltaSource(str(path)).files_at(offset_of(version))


def about(fields=(FIELD,), *, of=OWN):
    return JobVnodes(of, 8, fields)


def found_in(path, job_vnodes, version=2):
    found, keys = chunk_files(files(path, version), ORDER, job_vnodes)
    return sorted(found, key=lambda file: file.lower), keys


# --- the vnodes of a job --------------------------------------------------------------------------


def test_a_job_covers_a_share_of_the_vnodes():
    assert about().share == 0.25
    job = job_of(vnode_count=8, restrict_to={"vnodes": [1, 2]}, upstream={"path": "/lake/orders", "key": ["k1"]})
    assert JobVnodes.of(job, {"k1": "long"}) == about()


def test_only_columns_whose_types_can_be_a_key_are_hashed_here():
    job = job_of(upstream={"path": "/lake/orders", "key": ["id"], "distribution_key": ["a", "b"]})
    assert hashed_fields(job, {"a": "long", "b": "string"}) == (
        KeyField(name="a", type="long"),
        KeyField(name="b", type="string"),
    )
    assert hashed_fields(job, {"a": "long", "b": "double"}) is None


def test_rows_of_other_vnodes_are_left_out_as_far_as_they_are_known():
    rows = pa.table({"k1": pa.array(range(60), pa.int64())})
    assert about().select(rows).column("k1").to_pylist() == MINE
    assert about(None).select(rows) is rows
    assert about(of=frozenset(range(8))).select(rows) is rows


# --- how many rows --------------------------------------------------------------------------------


def test_a_job_over_all_vnodes_finds_every_row(path):
    found, keys = found_in(path, about(of=frozenset(range(8))), version=3)
    assert [(file.row_count, file.hidden_rows, file.is_exact) for file in found] == [
        (20, 0, True),
        (10, 10, True),
        (20, 0, True),
    ]
    assert [keys.count(file, EVERYTHING) for file in found] == [20, 10, 20]


def test_each_file_is_taken_to_have_the_share_of_the_vnodes(path):
    found, _ = found_in(path, about())
    assert [(file.row_count, file.hidden_rows) for file in found] == [(5, 15)] * 3
    assert not any(file.is_exact for file in found), "the keys can tell"


@pytest.mark.parametrize(
    ("many", "fields", "is_exact"),
    [
        (5, (FIELD,), True),
        (6, (FIELD,), False),
        (5, (KeyField(name="region", type="string"),), False),  # one region may have very many rows
        (6, None, True),  # nothing here knows better
    ],
)
def test_a_share_is_exact_enough_where_hashes_are_spread_evenly_over_many_rows(
    path, monkeypatch, many, fields, is_exact
):
    monkeypatch.setattr(chunk_keys, "MANY", many)
    assert [file.is_exact for file in found_in(path, about(fields))[0]] == [is_exact] * 3


# --- which keys -----------------------------------------------------------------------------------


def test_keys_are_those_of_the_jobs_vnodes(path):
    found, keys = found_in(path, about())
    assert sum(keys.count(file, EVERYTHING) for file in found) == len(MINE)
    within = KeyRange((MINE[1],), (MINE[-2],))
    assert sum(keys.count(file, within) for file in found) == len(MINE) - 3
    assert [keys.nth(found, EVERYTHING, n + 1) for n in range(len(MINE) + 1)] == [*((key,) for key in MINE), None]


def test_vnodes_may_come_from_another_column_than_the_key(path):
    region = KeyField(name="region", type="string")
    hashed = vnodes_of(pa.table({"region": ROWS["region"]}), [region], 8).to_pylist()
    mine = [number for number, vnode in enumerate(hashed) if vnode == hashed[3]]
    found, keys = found_in(path, about((region,), of=frozenset({hashed[3]})))
    assert [keys.nth(found, EVERYTHING, n + 1) for n in range(len(mine))] == [(number,) for number in mine]


def test_hidden_rows_are_no_keys(path):
    found, keys = found_in(path, about(), version=3)
    left = [key for key in MINE if not 20 <= key < 30]
    assert [keys.nth(found, EVERYTHING, n + 1) for n in range(len(left) + 1)] == [*((key,) for key in left), None]


def test_if_only_spark_can_hash_a_share_of_the_keys_is_counted(path):
    found, keys = found_in(path, about(None))
    assert [keys.count(file, EVERYTHING) for file in found] == [5, 5, 5]
    assert keys.nth(found, EVERYTHING, 2) == (7,), "the eighth of all keys"
    assert keys.nth(found, EVERYTHING, 15) == (59,)
    assert keys.nth(found, EVERYTHING, 16) is None


def test_after_very_many_hashed_rows_a_file_counts_by_its_share(path, monkeypatch):
    monkeypatch.setattr(chunk_keys, "MOST_HASHED", 10)
    found, keys = found_in(path, about())
    mine = sum(key < 20 for key in MINE)
    assert keys.count(found[0], EVERYTHING) == mine
    assert keys.count(found[1], KeyRange(None, (0,))) == found[1].row_count
    assert keys.count(found[0], EVERYTHING) == mine, "what is known stays known"
    assert found[1].row_count == math.ceil(20 / 4)


def test_in_a_very_large_table_hidden_rows_stay_among_the_keys(path, monkeypatch):
    """Loading the deletion vectors of all its files would take too much memory."""
    monkeypatch.setattr(chunk_keys, "MOST_MASKED", 59)
    found, keys = found_in(path, about(), version=3)
    assert sum(keys.count(file, EVERYTHING) for file in found) == len(MINE)
