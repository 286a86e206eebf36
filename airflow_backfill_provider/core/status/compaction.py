"""
Decides whether compacting a table is worthwhile, from the sizes and counts in its log.

The plan predicts what Delta's ``OPTIMIZE`` does: within each partition, files below a size are packed into bins of the
target size, and a bin with a single file stays as it is. Rows that deletion vectors hide are purged by Delta's
``REORG``, because ``OPTIMIZE`` does not rewrite a large file, however few of its rows are left.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from airflow_backfill_provider.core.errors import InvalidPolicyError

APPLICATION = "compaction"
"""Name of the compaction among a job's applications."""

TARGET_FILE_SIZE = 128 * 2**20
"""
The target size in bytes for a table without the property: what one Spark task reads by default.

Delta's own default, 1 GiB, suits tables that are seldom merged into. A merge rewrites each file that it touches.
"""

TARGET_PROPERTY = "delta.targetFileSize"

MOST_DELETED_OF_FILE = 0.05
"""Share of a file's rows that may be deleted before it counts as small; Delta's default."""


class CompactionStep(StrEnum):
    """A step of a compaction; each is one commit."""

    COMPACT = "compact"
    """Combine small files."""

    PURGE = "purge"
    """Rewrite files with many deleted rows, without these rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """
    One data file as the log describes it.

    :param size: bytes.
    :param rows: stored rows, deleted ones included; 0 if the log has no count.
    :param deleted_rows: stored rows that a deletion vector hides.
    :param partition: the values of the partition columns.
    """

    size: int
    rows: int = 0
    deleted_rows: int = 0
    partition: Hashable = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionPolicy:
    """
    The rule that decides when a compaction is worth a Spark application.

    :param at: the number of files that it must save.
    :param deleted_share: deleted rows are purged if they make up at least this share of the stored rows.
    :param target_file_size: the target size of a file in bytes; by default the table's property
        ``delta.targetFileSize``, or 128 MiB.
    :raises InvalidPolicyError: if a value is out of range.
    """

    at: int = 50
    deleted_share: float = 0.2
    target_file_size: int | None = None

    def __post_init__(self) -> None:
        """Refuse values that are out of range."""
        if self.at < 1:
            raise InvalidPolicyError(f"at: must be a number of files from 1, not {self.at}")
        if not 0 < self.deleted_share <= 1:
            raise InvalidPolicyError(f"deleted_share: must be above 0 and at most 1, not {self.deleted_share}")
        if self.target_file_size is not None and self.target_file_size < 1:
            raise InvalidPolicyError(f"target_file_size: must be a number of bytes from 1, not {self.target_file_size}")


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionPlan:
    """
    What a compaction would do to one table.

    :param files: data files now.
    :param saved_files: how many fewer files there would be.
    :param deleted_share: share of the stored rows that are deleted.
    :param smaller_than: a file with fewer bytes is small.
    :param target_file_size: bytes of the files that small files are combined into.
    :param step: the step that is due; ``None`` for nothing.
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

    Only one step is due at a time, so a concurrent epoch conflicts with at most one commit before it tries again.

    :param files: the table's data files.
    :param target: the target size of a file in bytes.
    :param smaller_than: a file with fewer bytes is small; by default half of the target, so that a file that one
        compaction has filled is not rewritten by the next.
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
    """Return the default size below which a file is small, in bytes."""
    return max(target // 2, 1)


def _saved_files(files: Iterable[StoredFile], target: int, smaller_than: int) -> int:
    candidates: dict[Hashable, list[int]] = defaultdict(list)
    for file in files:
        if file.size < smaller_than or file.deleted_rows > MOST_DELETED_OF_FILE * file.rows:
            candidates[file.partition].append(file.size)
    return sum(len(sizes) - _bins(sizes, target) for sizes in candidates.values())


def _bins(sizes: list[int], target: int) -> int:
    """Return how many files remain if Delta packs some: in order of size, each bin until it is full."""
    bins = filled = 0
    for size in sorted(sizes):
        if not bins or filled + size > target:
            bins += 1
            filled = 0
        filled += size
    return bins
