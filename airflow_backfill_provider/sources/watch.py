"""Polls an upstream for new offsets; each kind of source has its own way."""

from __future__ import annotations

import datetime as dt
from abc import ABC, abstractmethod
from collections.abc import Hashable

from airflow_backfill_provider.core.scan.offset import Offset


class SourceWatch(ABC):
    """Polls an upstream for new offsets, as cheaply as possible."""

    @abstractmethod
    def look(self) -> tuple[Offset | None, Hashable]:
        """
        Return the newest offset, and a value that changes if the upstream is recreated.

        :returns: ``None`` as the offset if there is no upstream.
        :raises StorageUnavailableError: if the storage does not answer.
        """

    @abstractmethod
    def seen_at(self, offset: Offset) -> dt.datetime:
        """
        Return when the offset that :meth:`look` returned last was committed, as far as that is known.

        :raises ChangeFeedGapError: if the upstream no longer has that time.
        """
