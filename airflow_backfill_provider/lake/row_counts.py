"""
How many rows the data files of a table store.

The log counts them, where its writer did: some writers leave the count out, and what others wrote may be wrong. A file
knows the number of its rows itself, in its footer, which costs a request or two.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

MOST_FOOTERS = 2_000
"""Footers that are read at most; the rows of more files are estimated from their bytes."""

MOST_ROWS_PER_BYTE = 10_000
"""A count above this is wrong: not even a column of one value is stored in so little."""

_READERS = 16


class RowCount(NamedTuple):
    """A number of rows, and whether it is exact; otherwise it is an estimate."""

    rows: int
    is_exact: bool = True


class LoggedFile(NamedTuple):
    """
    What the log says of one data file.

    :param rows: as its writer counted them, if it did.
    :param size: bytes.
    """

    path: str
    rows: int | None
    size: int


def stored_rows(files: Sequence[LoggedFile], read_footer: Callable[[str], int]) -> list[RowCount]:
    """
    Return the rows that each of some files stores, those among them that are deleted, too.

    The result is a function of the files: whoever asks gets the same.

    :param read_footer: returns the number of rows that a file says it has.
    """
    unknown = sorted(file.path for file in files if not _is_plausible(file))
    read = set(_evenly(unknown, MOST_FOOTERS))
    with ThreadPoolExecutor(max_workers=_READERS) as readers:
        footers = dict(zip(sorted(read), readers.map(read_footer, sorted(read)), strict=True))
    size = sum(file.size for file in files if file.path in read)
    rows_per_byte = sum(footers.values()) / size if size else 0.0
    left = set(unknown) - read

    def count(file: LoggedFile) -> RowCount:
        if file.path in left:
            return RowCount(max(round(file.size * rows_per_byte), 1), is_exact=False)
        return RowCount(footers.get(file.path, file.rows or 0))

    return [*map(count, files)]


def _is_plausible(file: LoggedFile) -> bool:
    return file.rows is not None and 0 < file.rows <= file.size * MOST_ROWS_PER_BYTE


def _evenly(paths: Sequence[str], most: int) -> list[str]:
    if len(paths) <= most:
        return list(paths)
    return [paths[number * len(paths) // most] for number in range(most)]
