"""
Inspects files, without a JVM: the number of their rows, and what the file log needs beside.

A row of JSON or CSV is a line that is not blank. Spark numbers the lines of a file in the same way (``texts``).
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import IO

import pyarrow as pa
import pyarrow.fs as arrow_fs

from airflow_backfill_provider.core.errors import UpstreamError
from airflow_backfill_provider.lake.store.storage import got_no_answer, one_line, storage_unavailable
from airflow_backfill_provider.lake.stored_parquet import StoredParquet
from airflow_backfill_provider.sources.files.definition import Escape, FileFormat, FilesUpstream
from airflow_backfill_provider.sources.files.details import FileDetails, partitions_of
from airflow_backfill_provider.sources.files.parquet_schema import empty_columns, require_readable

MOST_BYTES = 512 << 20
"""The largest text in a file: Spark reads it as a whole, to number its lines."""

BLANKS = " \t\r"
"""The signs of a blank line."""

_COMPRESSED = (".bz2", ".deflate", ".lz4", ".snappy", ".zst", ".zstd", ".lzo")
"""Endings of names that Spark takes for compressed files, and this module cannot read."""

_BLANK_BYTES = (BLANKS + "\n").encode()

BYTE_ORDER_MARK = "\N{ZERO WIDTH NO-BREAK SPACE}"


@dataclass(frozen=True, slots=True)
class Inspected:
    """
    What is known of a file.

    :param rows: the number of its rows.
    """

    rows: int
    details: FileDetails


def inspect_file(storage: arrow_fs.FileSystem, path: str, upstream: FilesUpstream) -> Inspected:
    """
    Read a text, or the footer of a Parquet file.

    :param storage: the file system, rooted at the upstream's folder.
    :raises UpstreamError: if the file cannot be read, with its name.
    :raises FileNotFoundError: if it is gone.
    """
    where = f"file {path} of {upstream.location}"
    details = FileDetails(partitions=partitions_of(path, [*upstream.column_types], where))
    with _file_errors(where, upstream.location):
        if upstream.format is FileFormat.PARQUET:
            return _parquet(storage, path, upstream, where, details)
        if path.endswith(_COMPRESSED):
            raise UpstreamError(f"{where} has a compression that is not read; use .gz or none, {_ANEW}")
        with storage.open_input_stream(path, compression=None) as stream:
            text: IO[bytes] = gzip.GzipFile(fileobj=stream) if path.endswith(".gz") else stream  # type: ignore[assignment]
            digest = hashlib.sha256()
            lines = _lines(text, where, digest.update)
            if upstream.format is FileFormat.CSV:
                has_all = upstream.header and _has_all_columns(next(lines, ""), where, upstream, details)
                details = replace(details, has_all=has_all)
                count = _count_csv(lines, where, upstream)
            else:
                count = sum(1 for _ in lines)
    return Inspected(count, replace(details, digest=digest.hexdigest()))


def _parquet(
    storage: arrow_fs.FileSystem, path: str, upstream: FilesUpstream, where: str, details: FileDetails
) -> Inspected:
    types = {name: kind for name, kind in upstream.column_types.items() if name not in details.partitions}
    with storage.open_input_file(path) as file:
        found = StoredParquet(file)
        require_readable(found, types, where)
        footer = min(found.metadata.serialized_size + _FOOTER_END, file.size())
        digest = hashlib.sha256(file.read_at(footer, file.size() - footer))
        details = replace(details, digest=digest.hexdigest(), empty=empty_columns(found, types))
        return Inspected(int(found.metadata.num_rows), details)


_FOOTER_END = 8
"""The bytes after the footer of a Parquet file."""

_ANEW = "and put the file there under another name; then rebuild the job if the job has the file already"


def _count_csv(lines: Iterator[str], where: str, upstream: FilesUpstream) -> int:
    count, open_quote = 0, _open_quote(upstream)
    for line in lines:
        count += 1
        # Looking at the pattern costs more than counting, which finds most lines whole.
        if '"' in line and (upstream.escape is Escape.BACKSLASH or line.count('"') % 2) and open_quote.search(line):
            raise UpstreamError(
                f"{where}: record {count} has a quoted value that does not end in its line; write each record in one "
                f"line, {_ANEW}"
            )
    return count


def _open_quote(upstream: FilesUpstream) -> re.Pattern[str]:
    """Return the pattern of lines whose last value begins with a quote and has no other one that ends it."""
    separator = re.escape(upstream.delimiter)
    inner = {Escape.QUOTE: '[^"]*(?:""[^"]*)*', Escape.BACKSLASH: r'[^"\\]*(?:\\.[^"\\]*)*'}[upstream.escape]
    return re.compile(rf'^(?:(?:"{inner}"|(?!")[^{separator}]*){separator})*"{inner}\r?\n?$')


def _has_all_columns(line: str, where: str, upstream: FilesUpstream, details: FileDetails) -> bool:
    """
    Return whether a header has columns, too, whose values are in the file's path.

    :raises UpstreamError: if it has other names.
    """
    names = [*upstream.column_types]
    in_file = [name for name in names if name not in details.partitions]
    text = line.removeprefix(BYTE_ORDER_MARK).rstrip("\r\n")
    found: Sequence[str] = next(csv.reader([text], delimiter=upstream.delimiter), [])
    if text and [*found] not in (names, in_file):
        raise UpstreamError(
            f"{where} begins with other names than those of schema ({', '.join(in_file)}); give schema the file's "
            f"columns in their order, or set header: false if the file has no header, and rebuild the job"
        )
    return bool(details.partitions) and [*found] == names


def _lines(text: IO[bytes], where: str, seen: Callable[[bytes], None]) -> Iterator[str]:
    """
    Yield the lines that are not blank, with their ends.

    :param seen: is called with every line.
    """
    size = 0
    for line in _raw_lines(text):
        seen(line)
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
