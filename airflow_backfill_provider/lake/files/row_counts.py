"""
How many rows the data files of a table store.

The log has the row count of each file if its writer recorded it. Some writers leave it out, and some write a wrong one.
The footer of a file has the right count, but reading a footer costs one or two requests.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

MOST_FOOTERS = 2_000
"""The most footers that are read. The rows of further files are estimated from their sizes."""

MOST_ROWS_PER_BYTE = 10_000
"""A higher row count is wrong: even a column with a single value takes more space."""

_READERS = 16


class RowCount(NamedTuple):
    """A number of rows: exact, or an estimate."""

    rows: int
    is_exact: bool = True


class LoggedFile(NamedTuple):
    """
    The log's entry of one data file.

    :param rows: the row count that the writer recorded, if any.
    :param size: in bytes.
    """

    path: str
    rows: int | None
    size: int


def stored_rows(files: Sequence[LoggedFile], read_footer: Callable[[str], int]) -> list[RowCount]:
    """
    Return the number of rows that each file stores, deleted rows included.

    The result depends on the files alone, so every planner gets the same numbers.

    :param read_footer: returns the row count in a file's footer.
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
