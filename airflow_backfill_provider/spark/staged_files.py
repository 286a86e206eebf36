"""
Writes rows as Parquet files into the folder of a local table, without making them part of the table.

Spark first writes into a folder of the attempt, which Delta's readers and VACUUM ignore because of its name. A process
that is killed leaves this folder behind. Files that a failed attempt has moved out of it are left to VACUUM, as those
of Delta's own writer.
"""

from __future__ import annotations

import math
import shutil
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from airflow_backfill_provider.core.location import is_local
from airflow_backfill_provider.lake.store.storage import storage_errors

STAGING = "_backfill_staging"
"""The folder of a table in which attempts have their folders."""


def remove_staged(table: str, incarnation: str, *, before: float = math.inf) -> None:
    """
    Remove what killed attempts of an incarnation left in a table's folder; in an object store they leave nothing.

    :param table: the table's canonical location.
    :param before: attempts of earlier epochs only. Each of their parts must be written or given up, so that an attempt
        that still runs cannot commit its files: it might commit only those that it still finds.
    """
    if not is_local(table):
        return
    prefix = f"{incarnation}-"
    for left in Path(table, STAGING).glob(f"{prefix}*"):
        if int(left.name.removeprefix(prefix).partition("-")[0]) < before:
            shutil.rmtree(left, ignore_errors=True)


class StagedFiles:
    """
    The new files of an epoch.

    :param table: the canonical location of a local table.
    :param incarnation: the job's incarnation.
    """

    def __init__(self, table: str, incarnation: str, epoch: int) -> None:
        self._location = table
        self._table = Path(table)
        self._incarnation = incarnation
        self._epoch = epoch

    @contextmanager
    def written(self, rows: DataFrame) -> Iterator[dict[str, pq.FileMetaData]]:
        """
        Write rows, and yield the names of the files in the table's folder and their footers, without empty files.

        :raises StorageUnavailableError: if the files cannot be moved.
        """
        remove_staged(self._location, self._incarnation, before=self._epoch)
        attempt = self._table / STAGING / f"{self._incarnation}-{self._epoch}-{uuid.uuid4()}"
        try:
            # Spark would write another file to mark the success.
            rows.write.option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false").parquet(str(attempt))
            with storage_errors(self._location):
                files = dict(self._moved(attempt))
            yield files
        finally:
            shutil.rmtree(attempt, ignore_errors=True)

    def discard(self, names: Iterable[str]) -> None:
        """Remove files that are certainly not part of the table."""
        for name in names:
            with suppress(OSError):
                (self._table / name).unlink()

    def _moved(self, attempt: Path) -> Iterator[tuple[str, pq.FileMetaData]]:
        for file in sorted(attempt.glob("part-*.parquet")):
            footer = pq.read_metadata(file)
            if footer.num_rows:
                file.rename(self._table / file.name)
                yield file.name, footer
