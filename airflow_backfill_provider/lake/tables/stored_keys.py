"""
The keys of all rows of a table of moderate size, read without Spark.

Spark plans a scan, compiles it, and carries what Python needs from one process to the other. To read one or two columns
of numbers here takes a fraction of that. Other types of keys and larger tables are left to Spark.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa

from airflow_backfill_provider.core.errors import BackfillError
from airflow_backfill_provider.core.scan.keys import KeyOrder
from airflow_backfill_provider.lake.files.key_index import shown_keys
from airflow_backfill_provider.lake.tables.data_files import DataFiles

MOST_ROWS = 25_000_000
"""The most rows whose keys are read: eight bytes for each column of one, and a few copies of these."""


_NUMBERS = frozenset({"byte", "integer", "long", "short"})

Seen = TypeVar("Seen")


@dataclass(frozen=True, slots=True)
class StoredKeys:
    """
    The keys of a version's rows.

    :param files: the version.
    :param order: the key's columns, all of them whole numbers.
    """

    files: DataFiles
    order: KeyOrder

    @classmethod
    def of(cls, files: DataFiles, order: KeyOrder) -> StoredKeys | None:
        """Return the keys of a version; ``None`` if Spark has to read them."""
        are_numbers = all(field.type in _NUMBERS for field in order.fields)
        if not (are_numbers and files.row_count() <= MOST_ROWS):
            return None
        return cls(files, order)

    def of_each_file(self, seen: Callable[[pa.Table], Seen]) -> list[Seen] | None:
        """
        Return what a function makes of the keys in each file; ``None`` if they cannot be read here.

        :param seen: is given the key's columns, of the rows that are not hidden. Several threads call it.
        """
        try:
            masks = self.files.hidden_rows()
            if masks is None:
                return None
            keys, files = self.files.keys(self.order), self.files.files(self.order)
            with ThreadPoolExecutor(max_workers=os.cpu_count()) as readers:
                return [*readers.map(lambda file: seen(shown_keys(keys.read(file), masks.get(file.path))), files)]
        except (BackfillError, pa.ArrowException, OSError, ValueError):
            # If something is wrong with a file, Spark says what.
            return None
