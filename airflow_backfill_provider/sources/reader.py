"""The interface of a source's Spark side, which returns rows and changes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from airflow_backfill_provider.core.scan.keys import KeyOrder, KeyRange
    from airflow_backfill_provider.core.scan.offset import Offset
    from airflow_backfill_provider.core.scan.splits import SplitRange
    from airflow_backfill_provider.lake.tables.stored_keys import StoredKeys

CHANGE_TYPE = "_change_type"
"""The column with the type of a change: ``insert``, ``delete``, ``update_preimage`` or ``update_postimage``."""

CHANGE_OFFSET = "_commit_version"
"""
The column with the offset of a change. Spark must order its type as offsets are ordered.

A number is a number, a text a string, and a sequence a struct with one field for each part; as ``literal`` of
``spark/job_rows.py`` writes it.
"""


class SourceReader(ABC):
    """The half of a source on Spark."""

    keys_are_unique: ClassVar[bool] = False
    """
    Whether the upstream itself refuses a second row with a key. Then its changes need not have whole old rows, because
    nothing is concluded from them.
    """

    appends_only: ClassVar[bool] = False
    """Whether rows are only ever added, and never change. Then every change is the insert of a new key."""

    loses_rows: ClassVar[bool] = False
    """
    Whether the upstream may remove rows without a change that says so, such as by a topic's retention.

    The view keeps such rows. What is removed never comes back.
    """

    @abstractmethod
    def rows(self, offset: Offset) -> DataFrame:
        """
        Return the rows as of an offset, with all columns; always the same rows.

        A source that cannot go back leaves out those of :meth:`unsettled`.
        """

    def whole_since(self, begin: Offset) -> SourceReader:
        """
        Return a reader whose :meth:`rows` fails if a row after an offset is gone, where this one leaves it out.

        For views whose units are groups of rows; see :attr:`loses_rows`. By default the same reader: no row is gone.
        """
        del begin
        return self

    def rows_to_verify(self, offset: Offset) -> DataFrame:
        """
        Return the same rows as :meth:`rows`, for a verification.

        A verification does not find a mistake that both of its sides share. So if rows can be read in a second way,
        without the code that epochs read them with, read them so here. By default, they are read by :meth:`rows`.
        """
        return self.rows(offset)

    def unsettled(self, offset: Offset) -> DataFrame | None:
        """
        Return the keys that :meth:`rows`, as called last, leaves out because they have changed since the offset.

        :returns: the key columns; ``None``, the default, if there are none, because rows can be read as of any offset.
        """
        del offset
        return None

    def without_removed(self, rows: DataFrame, key: Sequence[str], up_to: Offset) -> DataFrame:
        """
        Return some rows of the view without those that the upstream has removed since they were read.

        See :attr:`loses_rows`. Such rows cannot be compared, and a repair keeps them. A row that the upstream never had
        is not among them.

        :param key: the names of the key columns in ``rows``, in the key's order.
        :param up_to: the offset up to which the view was read.
        :returns: by default all rows.
        """
        del key, up_to
        return rows

    def stored_keys(self, offset: Offset, order: KeyOrder) -> StoredKeys | None:
        """
        Return the keys of the same rows as :meth:`rows`, to be read without Spark.

        :param order: the key's columns.
        :returns: ``None``, the default, if Spark has to read them.
        """
        del offset, order
        return None

    @abstractmethod
    def empty(self) -> DataFrame:
        """Return all columns, without rows."""

    def present_rows(self, ranges: Sequence[KeyRange]) -> DataFrame:
        """
        Return the rows in some ranges of keys as they are now, each range on its own.

        See :class:`~airflow_backfill_provider.sources.base.PresentRows`.

        :param ranges: disjoint ranges, at least one.
        """
        raise NotImplementedError(f"{type(self).__name__} reads rows as of an offset, not as they are now")

    def rows_of(self, ranges: Sequence[SplitRange]) -> DataFrame:
        """
        Return the rows at some places; see :class:`~airflow_backfill_provider.sources.splits.Splits`.

        :param ranges: disjoint ranges.
        """
        raise NotImplementedError(f"{type(self).__name__} has no splits")

    def unreadable(self, ranges: Sequence[SplitRange]) -> DataFrame | None:
        """
        Return the records at some places that cannot be read, with the reason, to be listed instead of failing.

        :param ranges: disjoint ranges; may be empty.
        :returns: columns of the source's own; ``None``, the default, if what cannot be read fails an epoch.
        """
        del ranges
        return None

    def is_cleared(self, after: Offset, up_to: Offset) -> bool:
        """
        Return whether all rows were removed at once in ``(after, up_to]``, such as by TRUNCATE.

        Then :meth:`changes` has only the changes since, and nothing else is left.
        """
        del after, up_to
        return False

    @abstractmethod
    def changes(self, after: Offset, up_to: Offset) -> DataFrame:
        """
        Return the changes in ``(after, up_to]``; always the same changes.

        Return every change at the offset at which it happened. Don't net changes of different offsets: an epoch may
        apply only those after a later offset than ``after``.

        :param after: ``BEGINNING`` only under a strategy that takes all changes and starts at the beginning of the
            history; none of this package does.
        :returns: all columns, :data:`CHANGE_TYPE` and :data:`CHANGE_OFFSET`. An update is a preimage and a postimage.
        """
