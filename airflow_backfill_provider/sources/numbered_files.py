"""
What a source offers whose rows as of an offset lie in files that it keeps: to read them file by file, in any order.

The files as of an offset have numbers from 0, in the order in which they were written. A row's place is the number of
its file, and its index in the file.
"""

from __future__ import annotations

import datetime as dt
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_backfill_provider.core.scan.offset import Offset

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberedFile:
    """
    A file; its number is its index in :meth:`NumberedFiles.files`.

    :param stored: the rows that it stores.
    :param live: the rows of them that a reader finds; the others are deleted.
    :param is_exact: whether ``live`` is exact as far as the log knows.
    :param size: bytes.
    """

    path: str
    stored: int
    live: int
    is_exact: bool
    size: int


class NumberedFiles(ABC):
    """The files of a source."""

    @abstractmethod
    def files(self, offset: Offset) -> Sequence[NumberedFile]:
        """
        Return the files as of an offset; always the same ones, in the same order.

        :raises UpstreamError: if there is no readable upstream.
        """

    @abstractmethod
    def counted(self, offset: Offset, numbers: Sequence[int]) -> int | None:
        """
        Count the rows that a reader finds in some files, from the files themselves and not from the log's statistics.

        :returns: ``None`` if that cannot be told without reading the rows.
        :raises DataFileError: if a file is gone.
        """

    @abstractmethod
    def kept_for(self) -> dt.timedelta | None:
        """Return how long files are kept after they were removed, and changes as well; ``None`` if unknown."""

    @abstractmethod
    def first_removal(self, after: Offset, newest: Offset) -> tuple[Offset, dt.datetime] | None:
        """
        Return the first offset in ``(after, newest]`` that removed a file, and when it was committed.

        :returns: ``None`` if there is none among the next ones.
        """

    @abstractmethod
    def few_changes(self, after: Offset, newest: Offset, *, rows: int, steps: int) -> Offset:
        """
        Return the offset up to which no more rows changed than are given, by an estimate.

        It lies at least one step of the history after ``after``, unless ``newest`` does not.

        :param rows: how many changed rows.
        :param steps: how many steps of the history it lies after ``after`` at least, however many rows changed.
        """

    @abstractmethod
    def changed_rows(self, after: Offset, up_to: Offset, *, at_most: int) -> int:
        """
        Return about how many rows changed in ``(after, up_to]``.

        :param at_most: where to stop counting.
        """

    @abstractmethod
    def rows(
        self, spark: SparkSession, offset: Offset, folder: str, names: tuple[str, str], first: int = 0
    ) -> DataFrame:
        """
        Return the rows as of an offset with their places; a condition on the file's number opens only these files.

        :param folder: a folder of the caller in which the source may keep what it needs for that; the same each time.
        :param names: the columns of the file's number and of the row's index in the file.
        :param first: the number of the first file there, if others were numbered before; the same each time.
        """
