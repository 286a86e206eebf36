"""What one run reads of the snapshot, whichever strategy it comes from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
from pyspark.sql import DataFrame

from airflow_backfill_provider.core.errors import DataFileError
from airflow_backfill_provider.engine.source import Upstream
from airflow_backfill_provider.lake.live_keys import distinct


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


@dataclass(frozen=True, slots=True, kw_only=True)
class InPlaceChunk:
    """
    A chunk read from the upstream itself.

    :param source: the upstream.
    :param selected: its rows in the chunk's ranges.
    :param keys: their keys, where a driver has them without Spark; ``None`` if there are too many.
    :param expected: about how many rows it has, if that is known.
    """

    source: Upstream
    selected: DataFrame
    keys: Callable[[], pa.Table | None]
    expected: int | None

    def rows(self) -> DataFrame:
        """Return the rows."""
        return self.selected

    def count(self) -> dict[int, int]:
        """Count the rows, reading the key columns only."""
        keys = self._found_keys()
        if keys is None:
            rows = self.source.measure_chunk(self.selected, expected=self.expected)
        else:
            rows = keys.num_rows
            if distinct(keys) < rows:
                raise self.source.duplicates()
        return {0: rows} if rows else {}

    def _found_keys(self) -> pa.Table | None:
        # What a file lacks Spark says better, and it may read what Arrow cannot.
        with suppress(DataFileError):
            return self.keys()
        return None
