"""
The data files with the rows that a chunk will find there, for planning chunks that are read from the upstream itself.

A chunk finds fewer rows than the files store if deletion vectors hide some, or if the job covers only some vnodes.
Statistics don't have the vnode of a row, so it is computed from the distribution key. For very many rows that would
take too long, and each vnode is assumed to have an equal share of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc
from cachetools import LRUCache

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.core.scan.file_statistics import FileStatistics, KeyIndex
from airflow_backfill_provider.core.scan.keys import KeyField, KeyOrder, KeyRange, Position
from airflow_backfill_provider.lake.files.key_index import keys_within, nth_key, shown_keys
from airflow_backfill_provider.lake.files.vnode_hash import vnodes_of
from airflow_backfill_provider.lake.tables.data_files import DataFiles

MANY = 2_000
"""The fewest rows whose hashes are spread evenly enough for an estimate."""

MOST_HASHED = 5_000_000
"""The most rows that a planner computes vnodes of."""

MOST_MASKED = 100_000_000
"""The most rows of a table for which a planner loads deletion vectors; a row takes up to a byte of memory."""

CUT_BYTES = 64 * 2**20
"""The bytes of keys that are kept of files that chunks cut: the next chunk often cuts the same file."""


@dataclass(frozen=True, slots=True)
class JobVnodes:
    """
    The vnodes that a job covers.

    :param vnodes: the covered vnodes.
    :param vnode_count: the number of all vnodes.
    :param fields: the distribution key's columns; ``None`` if only Spark can hash their types.
    """

    vnodes: frozenset[int]
    vnode_count: int
    fields: tuple[KeyField, ...] | None

    @classmethod
    def of(cls, job: BackfillJob, types: Mapping[str, str]) -> JobVnodes:
        """
        Return the vnodes of a job.

        :param types: column of the distribution key → its type when the job was created.
        """
        return cls(job.vnodes, job.vnode_count, hashed_fields(job, types))

    @property
    def share(self) -> float:
        """The share of all vnodes that the job covers."""
        return len(self.vnodes) / self.vnode_count

    def select(self, rows: pa.Table) -> pa.Table:
        """Return the rows that belong to the covered vnodes."""
        if self.fields is None or self.share == 1:
            return rows
        vnodes = vnodes_of(rows, self.fields, self.vnode_count)
        return rows.filter(pc.is_in(vnodes, value_set=pa.array(sorted(self.vnodes), pa.int32())))


def hashed_fields(job: BackfillJob, types: Mapping[str, str]) -> tuple[KeyField, ...] | None:
    """Return the columns of a job's distribution key; ``None`` if only Spark can hash their types."""
    fields = tuple(KeyField(name=name, type=types[name]) for name in job.upstream.distribution_key)
    try:
        # Every type that can be a key can be hashed here.
        [field.kind for field in fields]
    except InvalidJobError:
        return None
    return fields


def chunk_files(files: DataFiles, order: KeyOrder, covered: JobVnodes) -> tuple[list[FileStatistics], KeyIndex]:
    """
    Return the files with the number of rows that a chunk finds in each, and an index to read exact keys.

    :param order: the key's columns.
    :param covered: the vnodes that the job covers.
    """
    stored = files.files(order)
    keys = ChunkKeys(files, order, covered)
    if covered.share == 1:
        return stored, keys
    # Hashes of a unique key are spread evenly; any other column may have one value in very many rows.
    is_even = covered.fields is None or set(order.names) <= {field.name for field in covered.fields}
    return [
        _scaled_to(file, covered.share, is_even=is_even, hashed=covered.fields is not None) for file in stored
    ], keys


def _scaled_to(file: FileStatistics, share: float, *, is_even: bool, hashed: bool) -> FileStatistics:
    rows = math.ceil(file.row_count * share)
    others = file.hidden_rows + file.row_count - rows
    return replace(
        file, row_count=rows, hidden_rows=others, is_exact=file.is_exact and is_even and (rows >= MANY or not hashed)
    )


class ChunkKeys:
    """
    Exact keys of the rows that a chunk finds.

    :param files: the data files.
    :param order: the key's columns.
    :param covered: the vnodes that the job covers.
    """

    def __init__(self, files: DataFiles, order: KeyOrder, covered: JobVnodes) -> None:
        self._files = files
        self._order = order
        self._covered = covered
        names = set(order.names)
        hashed = covered.fields if covered.share < 1 and covered.fields else ()
        # Vnodes are hashes of the types that the columns had when the job was created.
        types = {field.name: field for field in hashed}
        fields = [replace(field, type=types.get(field.name, field).type) for field in order.fields]
        read = KeyOrder((*fields, *(field for field in hashed if field.name not in names)))
        self._stored = files.keys(read)
        self._known: dict[str, pa.Table] = {}
        self._cut: LRUCache[str, pa.Table] = LRUCache(CUT_BYTES, getsizeof=lambda keys: keys.nbytes)
        self._hashed_rows = 0

    def count(self, file: FileStatistics, within: KeyRange) -> int:
        """Return the number of the file's keys in a range; after very many hashed rows, the whole file's row count."""
        if self._too_many(file):
            return file.row_count
        found = int(keys_within(self._keys(file), self._order, within).num_rows)
        return round(found * self._scale)

    def nth(self, files: Sequence[FileStatistics], within: KeyRange, n: int) -> Position | None:
        """Return the n-th smallest (from 1) of the files' keys in a range; None if there are fewer."""
        wanted = max(round(n / self._scale), 1)
        return nth_key((self._keys(file) for file in files), self._order, within, wanted)

    def exact_count(self, file: FileStatistics, within: KeyRange) -> int | None:
        """
        Return the number of the file's keys in a range; ``None`` if it cannot be known exactly.

        :param file: a file as :meth:`DataFiles.files` describes it.
        """
        if self._covered.share < 1 and self._covered.fields is None:
            return None
        if self._masks is None and (file.hidden_rows or not file.is_exact):
            return None
        keys = self._cut.get(file.path)
        if keys is None:
            keys = self._covered.select(self._live(file, self._stored.read(file))).select(self._order.names)
            # A file that is larger than the cache is not kept.
            with suppress(ValueError):
                self._cut[file.path] = keys
        return int(keys_within(keys, self._order, within).num_rows)

    @property
    def _scale(self) -> float:
        """The share of the keys read that the chunk finds, where their vnodes cannot be computed."""
        return self._covered.share if self._covered.fields is None else 1.0

    def _too_many(self, file: FileStatistics) -> bool:
        return self._covered.share < 1 and file.path not in self._known and self._hashed_rows > MOST_HASHED

    def _keys(self, file: FileStatistics) -> pa.Table:
        if file.path not in self._known:
            rows = self._live(file, self._stored.read(file))
            self._hashed_rows += rows.num_rows
            self._known[file.path] = self._covered.select(rows).select(self._order.names)
        return self._known[file.path]

    def _live(self, file: FileStatistics, rows: pa.Table) -> pa.Table:
        return shown_keys(rows, (self._masks or {}).get(file.path) if file.hidden_rows or not file.is_exact else None)

    @cached_property
    def _masks(self) -> dict[str, pa.Array] | None:
        """
        Masks of the rows that are not hidden; ``None`` if they are not known.

        They are not loaded for a very large table, so its chunks may find fewer rows.
        """
        if self._files.row_count() > MOST_MASKED:
            return None
        return self._files.hidden_rows()
