"""The rows of a source to whose splits rows are only appended, on Spark."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from copy import copy
from typing import ClassVar, Self

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.core.scan.splits import SplitRange
from airflow_backfill_provider.sources.reader import CHANGE_OFFSET, CHANGE_TYPE, SourceReader
from airflow_backfill_provider.sources.shared.balanced import any_of
from airflow_backfill_provider.sources.shared.by_key import column


def as_inserts(rows: DataFrame, up_to: Offset) -> DataFrame:
    """
    Return rows as the changes of a window.

    All are at its end: between splits there is no order, and a view whose rows are all as of one offset needs none.
    """
    total, text = up_to.root if isinstance(up_to.root, tuple) else (-1, "")
    end = F.struct(F.lit(total).cast("long"), F.lit(text))
    return rows.withColumns({CHANGE_TYPE: F.lit("insert"), CHANGE_OFFSET: end})


def is_among(key: Sequence[str], ranges: Iterable[SplitRange]) -> Column:
    """
    Return the condition that a row has one of some places; it is never null.

    :param key: the names of the columns with the split and the place.
    """
    split, place = map(column, key)
    found = [(split == places.split) & (place >= places.begin) & (place < places.end) for places in ranges]
    return F.coalesce(any_of(found), F.lit(False))


class AppendedRowsReader(SourceReader):
    """Reads a source to whose splits rows are only appended, and which may lose rows that were read."""

    keys_are_unique: ClassVar[bool] = True
    appends_only: ClassVar[bool] = True
    loses_rows: ClassVar[bool] = True

    _begin: Offset | None = None

    def whole_since(self, begin: Offset) -> Self:
        """Return a reader that needs all rows after an offset."""
        reader = copy(self)
        reader._begin = begin  # noqa: SLF001 - it is a copy of this object
        return reader

    def rows(self, offset: Offset) -> DataFrame:
        """Return the rows up to an offset that are left, or all since the offset from which none may be gone."""
        return self.rows_left(offset) if self._begin is None else self.all_rows(self._begin, offset)

    @abstractmethod
    def rows_left(self, offset: Offset) -> DataFrame:
        """Return the rows up to an offset that are left."""

    @abstractmethod
    def all_rows(self, after: Offset, up_to: Offset) -> DataFrame:
        """
        Return the rows in ``(after, up_to]``, for a reader that needs them all.

        :raises ChangeFeedGapError: if some are gone; or the rows fail when they are read.
        """
