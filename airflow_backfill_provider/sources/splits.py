"""What a source offers whose rows are only ever appended, each to one of several splits; a topic has partitions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar

from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.core.scan.splits import SplitRange
from airflow_backfill_provider.sources.split_offsets import ends_of


class Splits(ABC):
    """
    The splits of a source.

    A row is identified by its split and its place in it, which are the two columns of the key. It never changes.
    """

    has_gaps: ClassVar[bool] = True
    """Whether some places have no row. If not, a chunk that lacks a row is refused."""

    def ends(self, offset: Offset) -> Mapping[int, int]:
        """Return for each split as of an offset the place after its last row."""
        return ends_of(offset)

    def most_rows(self, places: SplitRange) -> int:
        """Return the most rows that some places may have."""
        return places.size

    @abstractmethod
    def beginnings(self) -> Offset:
        """
        Return the offset of the oldest rows that can be read.

        :raises UpstreamUnavailableError: if the upstream does not answer.
        """

    @abstractmethod
    def require_kept(self, ranges: Sequence[SplitRange]) -> tuple[str, ...]:
        """
        Compare what is to be read with what the upstream still has.

        :returns: warnings that say which places are gone, if the job is to go on without them.
        :raises ChangeFeedGapError: if it is not.
        """

    @abstractmethod
    def lost(self, ranges: Sequence[SplitRange]) -> str:
        """
        Return which rows the upstream has lost, or may have lost, of some places that a job has read.

        :returns: what is gone, in words; an empty text if nothing is.
        :raises UpstreamUnavailableError: if the upstream does not answer.
        """
