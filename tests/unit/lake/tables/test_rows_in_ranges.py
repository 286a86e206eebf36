"""How many rows of a job lie in ranges of keys, by the log and the keys of the files that the ranges cut."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from airflow_backfill_provider.core.scan.keys import EVERYTHING, KeyField, KeyRange
from airflow_backfill_provider.lake.files.vnode_hash import vnodes_of
from airflow_backfill_provider.lake.tables import chunk_keys, rows_in_ranges
from airflow_backfill_provider.lake.tables.chunk_keys import JobVnodes
from airflow_backfill_provider.lake.tables.rows_in_ranges import RowsInRanges
from airflow_backfill_provider.sources.delta.source import DeltaSource
from airflow_backfill_provider.sources.delta.versions import offset_of
from tests.builders import order_of
from tests.deletion_vectors import added_in, hide

ORDER = order_of("long")
FIELD = KeyField(name="k1", type="long")
ALL = JobVnodes(frozenset(range(8)), 8, (FIELD,))
SOME = JobVnodes(frozenset({1, 2}), 8, (FIELD,))


@pytest.fixture
def path(tmp_path, monkeypatch):
    """Sixty rows in three files in key order, which are not few."""
    monkeypatch.setattr(rows_in_ranges, "FEW_ROWS", 59)
    for start in range(0, 60, 20):
        write_deltalake(tmp_path, pa.table({"k1": pa.array(range(start, start + 20), pa.int64())}), mode="append")
    return tmp_path


def counted(path, after, up_to, *, version=2, covered=ALL):
    ranges = [KeyRange(None if after is None else (after,), None if up_to is None else (up_to,))]
    files = DeltaSource(str(path)).files_at(offset_of(version))
    return RowsInRanges(files, ORDER, covered).count(ranges)


@pytest.mark.parametrize(
    ("after", "up_to", "rows"),
    [(None, None, 60), (None, 29, 30), (4, 6, 2), (19, 39, 20), (9, 49, 40), (59, None, 0), (None, -1, 0)],
)
def test_whole_files_count_by_the_log_and_cut_ones_by_their_keys(path, after, up_to, rows):
    assert counted(path, after, up_to) == rows


def test_several_ranges_may_cut_one_file(path):
    files = DeltaSource(str(path)).files_at(offset_of(2))
    ranges = [KeyRange((1,), (3,)), KeyRange((5,), (6,)), KeyRange((18,), (21,))]
    assert RowsInRanges(files, ORDER, ALL).count(ranges) == 2 + 1 + 3
    assert RowsInRanges(files, ORDER, ALL).count([]) == 0


def test_rows_beyond_the_bounds_of_a_file_count_where_they_lie(path):
    """I6: the statistics say only which files are read, so a file that is cut counts right."""
    commit = Path(path, "_delta_log", f"{0:020d}.json")
    commit.write_text(commit.read_text(encoding="utf-8").replace('\\"k1\\":19', '\\"k1\\":9'), encoding="utf-8")
    assert '\\"k1\\":9' in commit.read_text(encoding="utf-8")
    assert counted(path, None, 5) == 6
    assert counted(path, None, 12) == 20, "it seems to lie in the range as a whole"


def test_of_a_small_table_every_key_is_read(path, monkeypatch):
    """I6: a row below the bounds of its file counts, too."""
    commit = Path(path, "_delta_log", f"{0:020d}.json")
    wrong = '{\\"k1\\":50}'
    text = commit.read_text(encoding="utf-8").replace('{\\"k1\\":0}', wrong, 1).replace('{\\"k1\\":19}', wrong)
    commit.write_text(text, encoding="utf-8")
    assert text.count(wrong) == 2
    assert counted(path, None, 29) == 10, "the first file seems to lie beyond"
    monkeypatch.setattr(rows_in_ranges, "FEW_ROWS", 60)
    assert counted(path, None, 29) == 30
    monkeypatch.setattr(rows_in_ranges, "FEW_FILES", 2)
    assert counted(path, None, 29) == 10


def test_hidden_rows_do_not_count(path):
    hide(path, added_in(path, 1), range(10))
    assert counted(path, None, 24, version=3) == 20
    assert counted(path, None, 34, version=3) == 25
    assert counted(path, None, None, version=3) == 50


def test_nothing_is_known_if_hidden_rows_are_not(path, monkeypatch):
    hide(path, added_in(path, 1), range(10))
    monkeypatch.setattr(chunk_keys, "MOST_MASKED", 59)
    assert counted(path, None, 34, version=3) is None
    assert counted(path, None, 12, version=3) == 13, "no row of this file is hidden"


def test_of_some_vnodes_every_key_is_read(path):
    mine = vnodes_of(pa.table({"k1": pa.array(range(60), pa.int64())}), [FIELD], 8).to_pylist()
    for up_to in (None, 29, 7):
        expected = sum(vnode in SOME.vnodes for vnode in mine[: None if up_to is None else up_to + 1])
        assert counted(path, None, up_to, covered=SOME) == expected
    assert counted(path, None, 29, covered=JobVnodes(SOME.vnodes, 8, None)) is None


def test_nothing_is_known_of_a_file_that_is_damaged_or_gone(path):
    """The epoch that reads it refuses it; earlier ones go on."""
    for file in Path(path).glob("*.parquet"):
        file.write_bytes(b"damaged")
    assert counted(path, None, 29) is None
    assert counted(path, None, 39) == 40, "no file is cut"
    for file in Path(path).glob("*.parquet"):
        file.unlink()
    assert counted(path, None, 29) is None


def test_very_many_rows_are_not_read(path, monkeypatch):
    monkeypatch.setattr(rows_in_ranges, "MOST_READ", 19)
    assert counted(path, None, 29) is None
    assert counted(path, None, 39) == 40, "no file is cut"


def test_keys_of_a_file_are_read_once(path, monkeypatch):
    files = DeltaSource(str(path)).files_at(offset_of(2))
    counting = RowsInRanges(files, ORDER, ALL)
    assert counting.count([KeyRange(None, (5,))]) == 6
    for file in Path(path).glob("*.parquet"):
        file.unlink()
    assert counting.count([KeyRange((5,), (7,))]) == 2
    assert counting.count([EVERYTHING]) == 60
