"""The changes of a window that an epoch found: the net ones, and of a view that keeps former rows all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pyspark.sql import Column, DataFrame

from airflow_backfill_provider.core.job.keep import Keep
from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.engine.repeated_keys import resolve_doubtful, resolve_doubtful_versions
from airflow_backfill_provider.spark.job_rows import JobRows
from airflow_backfill_provider.spark.net_changes import changes_by_version, net_changes, net_of_versions


@dataclass(frozen=True, slots=True)
class FoundChanges:
    """
    The changes of a window.

    :param found: the net changes, or the changes by version.
    :param keep: which rows the view keeps, which decides between the two.
    """

    rows: JobRows
    found: DataFrame
    keep: Keep

    @classmethod
    def read(
        cls, rows: JobRows, after: Offset, up_to: Offset, wanted: Column, old_columns: Sequence[str], keep: Keep
    ) -> FoundChanges:
        """
        Read the changes in ``(after, up_to]``.

        :param wanted: the condition for the changes to read.
        :param old_columns: see :func:`~airflow_backfill_provider.spark.net_changes.net_changes`.
        """
        if keep.keeps_former_rows:
            return cls(rows, changes_by_version(rows, after, up_to, wanted), keep)
        return cls(rows, net_changes(rows, after, up_to, wanted, old_columns), keep)

    @property
    def net(self) -> DataFrame:
        """The net changes."""
        return net_of_versions(self.rows, self.found) if self.keep.keeps_former_rows else self.found

    @property
    def versions(self) -> DataFrame | None:
        """The changes by version; ``None`` if the view does not keep former rows."""
        return self.found if self.keep.keeps_former_rows else None

    def resolved(self, offset: Offset) -> FoundChanges:
        """
        Return the changes with those of doubtful keys resolved.

        :param offset: the end of the window.
        :raises DuplicateKeyError: if the upstream has several rows of a key.
        """
        resolve = resolve_doubtful_versions if self.keep.keeps_former_rows else resolve_doubtful
        return replace(self, found=resolve(self.rows, self.found, offset))
