"""What one run reads of the snapshot, whichever strategy it comes from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from pyspark.sql import DataFrame

from airflow_backfill_provider.engine.source import Upstream


class Chunk(Protocol):
    """Some ranges of the upstream's rows as of one epoch; every attempt of the epoch finds the same."""

    def rows(self) -> DataFrame:
        """Return the rows, with the used columns among theirs."""
        ...

    def count(self) -> Mapping[int, int]:
        """
        Count the rows by vnode, under ``no_shuffle`` all under 0; none that is zero.

        :raises DuplicateKeyError: if the key does not identify the rows.
        """
        ...


@dataclass(frozen=True, slots=True)
class InPlaceChunk:
    """
    A chunk read from the upstream itself.

    :param source: the upstream.
    :param selected: its rows in the chunk's ranges.
    :param expected: about how many rows it has, if that is known.
    """

    source: Upstream
    selected: DataFrame
    expected: int | None

    def rows(self) -> DataFrame:
        """Return the rows."""
        return self.selected

    def count(self) -> dict[int, int]:
        """Count the rows, reading the key columns only."""
        rows = self.source.measure_chunk(self.selected, expected=self.expected)
        return {0: rows} if rows else {}
