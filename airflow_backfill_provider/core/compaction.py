"""
Whether a table's data files are worth writing anew, decided by sizes and counts that its log tells.

What is planned here is what Delta's own ``OPTIMIZE`` then does: files below a size go into bins of the target's size,
each partition for itself, and a bin of one file stays as it is. Rows that deletion vectors only hide are purged by
Delta's ``REORG``, since ``OPTIMIZE`` leaves a large file alone, however few of its rows are left.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from airflow_backfill_provider.core.errors import InvalidPolicyError

APPLICATION = "compaction"
"""What the run of a compaction is called among a job's applications."""

TARGET_FILE_SIZE = 128 * 2**20
"""
Bytes, for a table that does not say it itself: what one task of Spark reads by default.

Delta's own default, 1 GiB, suits tables that are seldom merged into; a merge rewrites each file that it touches.
"""

TARGET_PROPERTY = "delta.targetFileSize"

MOST_DELETED_OF_FILE = 0.05
"""Share of a file's rows that may be deleted before it counts as small; Delta's default."""

_SIZE = re.compile(r"\s*(\d+)\s*([kmgt]?)b?\s*", re.IGNORECASE)
_UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}


class CompactionStep(StrEnum):
    """What is to be done to a table; each is one commit."""

    COMPACT = "compact"
    """Write small files together."""

    PURGE = "purge"
    """Write files with many deleted rows without them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """
    One data file as the log describes it.

    :param size: bytes.
    :param rows: rows that are stored, the deleted ones too; 0 if the log does not say it.
    :param deleted_rows: of those, the ones that a deletion vector hides.
    :param partition: the values of the partition columns.
    """

    size: int
    rows: int = 0
    deleted_rows: int = 0
    partition: Hashable = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionPolicy:
    """
    When a compaction is worth an application of Spark.

    :param at: files that it must save.
    :param deleted_share: share of a table's rows that must be deleted, though stored, for them to be purged.
    :param target_file_size: bytes of a good file; by default the table's property ``delta.targetFileSize``, or 128 MiB.
    :raises InvalidPolicyError: if a value makes no sense.
    """

    at: int = 50
    deleted_share: float = 0.2
    target_file_size: int | None = None

    def __post_init__(self) -> None:
        """Refuse values that make no sense."""
        if self.at < 1:
            raise InvalidPolicyError(f"at: a compaction must save at least 1 file to be worth it, not {self.at}")
        if not 0 < self.deleted_share <= 1:
            raise InvalidPolicyError(f"deleted_share: must be above 0 and at most 1, not {self.deleted_share}")
        if self.target_file_size is not None and self.target_file_size < 1:
            raise InvalidPolicyError(f"target_file_size: must be a number of bytes from 1, not {self.target_file_size}")


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionPlan:
    """
    What a compaction would do to one table.

    :param files: data files now.
    :param saved_files: how many fewer there would be.
    :param deleted_share: share of the stored rows that is deleted.
    :param smaller_than: bytes below which a file is small.
    :param target_file_size: bytes that small files are put together to.
    :param step: what is due; ``None`` for nothing.
    """

    files: int
    saved_files: int
    deleted_share: float
    smaller_than: int
    target_file_size: int
    step: CompactionStep | None


def plan_compaction(
    files: Sequence[StoredFile], policy: CompactionPolicy, *, target: int, smaller_than: int | None = None
) -> CompactionPlan:
    """
    Plan the compaction of a table.

    Only one step is due at a time: an epoch that runs meanwhile loses to one commit at most, and tries again.

    :param files: the table's data files.
    :param target: bytes of a good file.
    :param smaller_than: bytes below which a file is small; by default half of a good one, so that the file that a
        compaction has filled is not written again by the next.
    """
    smaller_than = half_of(target) if smaller_than is None else smaller_than
    saved = _saved_files(files, target, smaller_than)
    stored = sum(file.rows for file in files)
    deleted_share = sum(file.deleted_rows for file in files) / stored if stored else 0.0
    step = None
    if saved >= policy.at:
        step = CompactionStep.COMPACT
    elif deleted_share >= policy.deleted_share:
        step = CompactionStep.PURGE
    return CompactionPlan(
        files=len(files),
        saved_files=saved,
        deleted_share=deleted_share,
        smaller_than=smaller_than,
        target_file_size=target,
        step=step,
    )


def half_of(target: int) -> int:
    """Return the bytes below which a file is small, if nothing else is said."""
    return max(target // 2, 1)


def bytes_of(text: str) -> int | None:
    """Read a size as Delta's properties have it, such as ``104857600`` or ``100mb``; ``None`` if it is none."""
    found = _SIZE.fullmatch(text)
    return int(found[1]) * _UNITS[found[2].lower()] if found else None


def _saved_files(files: Iterable[StoredFile], target: int, smaller_than: int) -> int:
    candidates: dict[Hashable, list[int]] = defaultdict(list)
    for file in files:
        if file.size < smaller_than or file.deleted_rows > MOST_DELETED_OF_FILE * file.rows:
            candidates[file.partition].append(file.size)
    return sum(len(sizes) - _bins(sizes, target) for sizes in candidates.values())


def _bins(sizes: list[int], target: int) -> int:
    """Return how many files some become, put together as Delta does it: from the smallest on, each bin until full."""
    bins = filled = 0
    for size in sorted(sizes):
        if not bins or filled + size > target:
            bins += 1
            filled = 0
        filled += size
    return bins
