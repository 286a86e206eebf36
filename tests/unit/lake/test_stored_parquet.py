"""Parquet files are read by the calling thread alone, and a small one with one request."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_backfill_provider.lake.stored_parquet import StoredParquet


class Held(bytes):
    """Bytes that tell which thread lets go of them."""

    let_go: Callable[[int], None]

    def __del__(self) -> None:
        self.let_go(threading.get_ident())


class Watched(io.BytesIO):
    """A file that remembers its readings, the thread and the number of bytes, and who lets go of what was read."""

    def __init__(self, content: bytes) -> None:
        super().__init__(content)
        self.readings: list[tuple[int, int]] = []
        self.let_go: list[int] = []

    def read(self, size: int | None = -1) -> bytes:
        found = Held(super().read(size))
        found.let_go = self.let_go.append
        self.readings.append((threading.get_ident(), len(found)))
        return found


def watched(rows: int) -> Watched:
    content = io.BytesIO()
    columns = {f"c{number}": [f"{number}-{row}" for row in range(rows)] for number in range(8)}
    pq.write_table(
        pa.table(columns), content, row_group_size=max(1, rows // 4), compression="none", use_dictionary=False
    )
    return Watched(content.getvalue())


@pytest.mark.parametrize("rows", [40, 40_000])
def test_only_the_calling_thread_reads_and_lets_go_of_what_it_read(rows):
    """Another one may hold the bytes, which are Python's, when the interpreter is torn down."""
    file = watched(rows)
    assert StoredParquet(file).read(["c1", "c5"]).num_rows == rows
    assert StoredParquet(file).read().num_columns == 8
    assert {thread for thread, _ in file.readings} == {threading.get_ident()} == set(file.let_go)


def test_the_columns_of_a_small_file_are_read_at_once_and_of_a_large_one_each_by_itself():
    small, large = watched(40), watched(40_000)
    for file in (small, large):
        stored = StoredParquet(file)
        file.readings.clear()
        stored.read([f"c{number}" for number in range(7)])
    assert [size for _, size in small.readings] == [len(small.getvalue())]
    assert sum(size for _, size in large.readings) < len(large.getvalue())


def test_opening_a_file_reads_its_footer_alone():
    file = watched(40_000)
    stored = StoredParquet(file)
    assert (stored.metadata.num_rows, stored.schema_arrow.names[0], len(stored.schema)) == (40_000, "c0", 8)
    assert sum(size for _, size in file.readings) < len(file.getvalue()) / 2


def test_what_is_no_parquet_file_is_refused():
    with pytest.raises(pa.ArrowInvalid):
        StoredParquet(io.BytesIO(b"no parquet file"))
