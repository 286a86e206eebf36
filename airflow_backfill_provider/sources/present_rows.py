"""The interface to rows that can only be read as they are now, and settled later."""

from __future__ import annotations

import datetime as dt
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from airflow_backfill_provider.core.scan.keys import KeyRange, Position
from airflow_backfill_provider.core.scan.offset import Offset


@dataclass(frozen=True, slots=True)
class ReadingStart:
    """
    What is known before the rows are read.

    :param changes_after: an offset whose transactions all later readers see.
    :param server_run: identifies the server's run since it last recovered from a crash. A server may lose transactions
        in a crash that readers saw before. Empty if the source cannot lose any.
    """

    changes_after: Offset
    server_run: str = ""


class PresentRows(ABC):
    """
    What a source offers whose rows can only be read as they are now, such as a database's.

    Rows that were read at different moments are made consistent with the changes since: of a row that was changed, the
    last change counts. So what matters is only an offset before all of the reading, and one after it.
    """

    @abstractmethod
    def begin_reading(self) -> ReadingStart:
        """
        Return from where the rows that are read from now on need changes.

        :raises UpstreamUnavailableError: if the upstream does not answer.
        """

    @abstractmethod
    def end_reading(self, name: str, server_run: str) -> bool:
        """
        Mark that a reading has ended, and make sure that the next :meth:`Source.refresh` covers what its readers saw.

        :param name: identifies the reading.
        :param server_run: of the reading's start.
        :returns: ``False``, without a mark, if the server has crashed since the start. Then its readers may have seen
            transactions that never will be in the log, so the rows have to be read again.
        """

    @abstractmethod
    def seen_by(self, name: str, ended_by: dt.datetime, server_run: str) -> Offset | None:
        """
        Return an offset that covers every transaction that the readers of a reading saw.

        :param name: as in :meth:`end_reading`.
        :param ended_by: when the rows that they read were committed to the lake.
        :param server_run: of the reading's start.
        :returns: ``None`` if it is not known yet, or if the server may have lost such a transaction in a crash.
        """

    @abstractmethod
    def sample_keys(self, most: int) -> Sequence[Position]:
        """
        Return keys that divide the rows into parts of about the same size, in key order.

        :param most: about how many keys to return; all keys of a small upstream.
        """

    def first_rows(self, covered: KeyRange, rows: int) -> KeyRange | None:
        """
        Return the first part of a range of keys that has so many rows now, or the range itself if it has no more.

        A sample gets old: rows come where it has no keys, such as after its last one.

        :param rows: at least 1.
        :returns: ``None``, the default, if that is not known; then the sample alone decides how much is read.
        """
        del covered, rows
        return None

    def rows_in(self, covered: KeyRange) -> int | None:
        """
        Count the rows in a range of keys as they are now; it is asked for the keys after the last one of the sample.

        :returns: ``None``, the default, if that is not known.
        """
        del covered
        return None
