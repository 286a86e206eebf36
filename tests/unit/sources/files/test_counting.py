"""Rows of files, counted without a JVM."""

from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow as pa
import pyarrow.fs as arrow_fs
import pyarrow.parquet as pq
import pytest

from airflow_backfill_provider.core.errors import UpstreamError
from airflow_backfill_provider.sources.files import counting
from airflow_backfill_provider.sources.files.counting import inspect_file
from airflow_backfill_provider.sources.files.definition import FilesUpstream


def count(folder: Path, name: str, content: bytes, **fields: object) -> int:
    (folder / name).write_bytes(content)
    upstream = FilesUpstream(**{"path": str(folder), "format": "json", "schema": "a INT, b STRING", **fields})
    return inspect_file(arrow_fs.SubTreeFileSystem(str(folder), arrow_fs.LocalFileSystem()), name, upstream).rows


@pytest.mark.parametrize(
    ("content", "rows"),
    [(b"", 0), (b"{}", 1), (b"{}\n", 1), (b"{}\r\n \t\r\n\n{}\n{}", 3), (b"\n\n", 0), ("ü\n".encode(), 1)],
)
def test_a_row_of_json_is_a_line_that_is_not_blank(tmp_path: Path, content: bytes, rows: int):
    assert count(tmp_path, "a.json", content) == rows
    assert count(tmp_path, "a.json.gz", gzip.compress(content)) == rows


def test_lines_may_cross_blocks(tmp_path: Path):
    line = b"x" * (5 << 20)
    assert count(tmp_path, "a.json", b"\n".join([line] * 4)) == 4


@pytest.mark.parametrize(
    ("content", "fields", "rows"),
    [
        (b"a,b\n1,x\n2,y\n", {}, 2),
        (b"\xef\xbb\xbfa,b\r\n1,x\r\n", {}, 1),
        (b"a,b\n", {}, 0),
        (b"", {}, 0),
        (b"1,x\n", {"header": False}, 1),
        (b'a;"b"\n1;"x""y"\n', {"delimiter": ";"}, 1),
        (b'a,b\n1,5" disk\n2,"say \\"hi\\""\n', {}, 2),
        (b'a,b\n1,"say \\"hi"\n', {"escape": "\\"}, 1),
    ],
)
def test_the_header_of_csv_is_no_row(tmp_path: Path, content: bytes, fields: dict[str, object], rows: int):
    assert count(tmp_path, "a.csv", content, format="csv", **fields) == rows


@pytest.mark.parametrize(
    ("name", "content", "fields", "problem"),
    [
        ("a.csv", b"b,a\n", {"format": "csv"}, "begins with other names"),
        ("a.csv", b'a,b\n1,"x\ny"\n', {"format": "csv"}, "record 1 has a quoted value that does not end"),
        ("a.csv", b'a,b\n1,"x\\"\n', {"format": "csv", "escape": "\\"}, "does not end in its line"),
        ("a.json", b"\xff\n", {}, "no text in UTF-8"),
        ("a.json.bz2", b"x", {}, "compression"),
        ("a.json.gz", b"x", {}, "cannot be read"),
        ("a.parquet", b"x", {"format": "parquet"}, "cannot be read"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_by_name(
    tmp_path: Path, name: str, content: bytes, fields: dict[str, object], problem: str
):
    """I6."""
    with pytest.raises(UpstreamError, match=problem) as raised:
        count(tmp_path, name, content, **fields)
    assert f"file {name} of {tmp_path}" in str(raised.value)


def test_rows_of_parquet_are_those_of_its_footer(tmp_path: Path):
    pq.write_table(pa.table({"a": pa.array([1, 2, 3], pa.int32())}), tmp_path / "x")
    assert count(tmp_path, "a.parquet", (tmp_path / "x").read_bytes(), format="parquet") == 3


def test_a_text_that_is_too_long_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(counting, "MOST_BYTES", 3)
    with pytest.raises(UpstreamError, match="cut it into smaller files"):
        count(tmp_path, "a.json", b"{}\n{}\n")
