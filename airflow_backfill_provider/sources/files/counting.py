"""
Counts the rows of files, without a JVM.

A row of JSON or CSV is a line that is not blank. Spark numbers the lines of a file in the same way (``texts``).
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import IO

import pyarrow as pa
import pyarrow.fs as arrow_fs
import pyarrow.parquet as pq

from airflow_backfill_provider.core.errors import UpstreamError
from airflow_backfill_provider.lake.storage import got_no_answer, one_line, storage_unavailable
from airflow_backfill_provider.sources.files import FileFormat, FilesUpstream

MOST_BYTES = 512 << 20
"""The largest text in a file: Spark reads it as a whole, to number its lines."""

BLANKS = " \t\r"
"""The signs of a blank line."""

_COMPRESSED = (".bz2", ".deflate", ".lz4", ".snappy", ".zst", ".zstd", ".lzo")
"""Endings of names that Spark takes for compressed files, and this module cannot read."""

_BLANK_BYTES = (BLANKS + "\n").encode()

_BYTE_ORDER_MARK = "\N{ZERO WIDTH NO-BREAK SPACE}"


def count_rows(storage: arrow_fs.FileSystem, path: str, upstream: FilesUpstream) -> int:
    """
    Return the number of rows of a file.

    :param storage: the file system, rooted at the upstream's folder.
    :raises UpstreamError: if the file cannot be read, with its name.
    :raises FileNotFoundError: if it is gone.
    """
    where = f"file {path} of {upstream.location}"
    with _file_errors(where, upstream.location), storage.open_input_stream(path, compression=None) as stream:
        if upstream.format is FileFormat.PARQUET:
            with storage.open_input_file(path) as file:
                return int(pq.ParquetFile(file).metadata.num_rows)
        if path.endswith(_COMPRESSED):
            raise UpstreamError(f"{where} has a compression that is not read; use .gz or none, {_ANEW}")
        text: IO[bytes] = gzip.GzipFile(fileobj=stream) if path.endswith(".gz") else stream  # type: ignore[assignment]
        lines = _lines(text, where)
        if upstream.format is FileFormat.JSON:
            return sum(1 for _ in lines)
        return _count_csv(lines, where, upstream)


_ANEW = "and put the file there under another name; then rebuild the job if the job has the file already"


def _count_csv(lines: Iterator[str], where: str, upstream: FilesUpstream) -> int:
    if upstream.header:
        _require_header(next(lines, ""), where, upstream)
    count = 0
    for line in lines:
        count += 1
        if line.count('"') % 2:
            raise UpstreamError(
                f"{where}: record {count} has a quoted value that does not end in its line; write each record in one "
                f"line, {_ANEW}"
            )
    return count


def _require_header(line: str, where: str, upstream: FilesUpstream) -> None:
    names = list(upstream.column_types)
    text = line.removeprefix(_BYTE_ORDER_MARK).rstrip("\r\n")
    found: Sequence[str] = next(csv.reader([text], delimiter=upstream.delimiter), [])
    if text and [*found] != names:
        raise UpstreamError(
            f"{where} begins with other names than those of schema ({', '.join(names)}); give schema the file's "
            f"columns in their order, or set header: false if the file has no header, and rebuild the job"
        )


def _lines(text: IO[bytes], where: str) -> Iterator[str]:
    """Yield the lines that are not blank, with their ends."""
    size = 0
    for line in _raw_lines(text):
        size += len(line)
        if size > MOST_BYTES:
            raise UpstreamError(f"{where} has more than {MOST_BYTES >> 20} MiB of text; cut it into smaller files")
        if not line.strip(_BLANK_BYTES):
            continue
        try:
            yield line.decode("utf-8")
        except UnicodeDecodeError:
            raise UpstreamError(f"{where} is no text in UTF-8; write it in UTF-8, {_ANEW}") from None


def _raw_lines(text: IO[bytes]) -> Iterator[bytes]:
    rest = b""
    while block := text.read(8 << 20):
        lines = (rest + bytes(block)).split(b"\n")
        rest = lines.pop()
        yield from (line + b"\n" for line in lines)
    if rest:
        yield rest


@contextmanager
def _file_errors(where: str, location: str) -> Iterator[None]:
    try:
        yield
    except (FileNotFoundError, UpstreamError):
        raise
    except (OSError, EOFError, pa.ArrowException, Exception) as error:
        if got_no_answer(error):
            raise storage_unavailable(location, error) from error
        raise UpstreamError(f"{where} cannot be read ({one_line(error)}); write it {_ANEW[4:]}") from None
