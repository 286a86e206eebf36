"""
What an engine does with rows, in plain Python and for both strategies: where they lie, chunks, net changes.

Spark is not imitated, its results are: changes are found by comparing versions instead of reading a change feed. The
arrangement is a real Delta table, for barriers are planned on its files, and chunks are read from it.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder, write_deltalake

from airflow_backfill_provider.core.barrier import Barrier, PinnedRead, decoded
from airflow_backfill_provider.core.compaction import CompactionPlan
from airflow_backfill_provider.core.crash_points import CrashPoint, reached
from airflow_backfill_provider.core.errors import DuplicateKeyError, EpochFailedError, EpochGivenUpError
from airflow_backfill_provider.core.job import BackfillJob
from airflow_backfill_provider.core.keys import KeyField, KeyRange, Position
from airflow_backfill_provider.core.offset import Offset
from airflow_backfill_provider.core.scan import VnodeRange
from airflow_backfill_provider.core.settings import JobSettings, ResolvedUpstream
from airflow_backfill_provider.core.table_version import TableVersion, TableVersions
from airflow_backfill_provider.core.verification import ComparedVnodes, PinnedVerification
from airflow_backfill_provider.lake.key_index import arrow_type
from airflow_backfill_provider.lake.view_identity import (
    INCARNATION_PROPERTY,
    JOB_PROPERTY,
    ViewIdentity,
    view_identity,
)
from airflow_backfill_provider.lake.vnode_hash import vnodes_of
from airflow_backfill_provider.protocol import EpochWrites, PartWrites, creation
from airflow_backfill_provider.protocol.backfill import Backfill
from airflow_backfill_provider.state.backfill_reader import BackfillReader
from airflow_backfill_provider.strategies.arrangement.files import ArrangementFiles
from airflow_backfill_provider.strategies.arrangement.place import location_of
from tests.builders import Key, compared_of, in_order

Row = dict[str, Any]
Rows = dict[Position, Row]
"""Rows by their positions in the scan's order."""

FILES = 3
"""What the base of an arrangement is cut into."""

_LOCK = threading.RLock()


def read_version(path: str, version: int) -> list[Row]:
    """Return the rows of a Delta table at a version."""
    answer = QueryBuilder().register("upstream", DeltaTable(path, version=version)).execute("SELECT * FROM upstream")
    return pa.table(answer.read_all()).to_pylist()


class Change(NamedTuple):
    """What a window did to one position: its row afterwards, if it has one, and whether it had none before."""

    row: Row | None
    appeared: bool

    @property
    def added(self) -> int:
        """By how many rows there are more."""
        return (self.row is not None) - (not self.appeared)


class PlainSource:
    """
    One job's upstream, and its arrangement if it has one.

    :param settings: the job's.
    :param read: returns the upstream's rows at a version.
    """

    def __init__(self, settings: JobSettings, read: Callable[[int], Iterable[Row]]) -> None:
        self._settings = settings
        self._read = read
        self.job = settings.definition
        self.scan = settings.scan
        self.order = settings.scan.order
        self.by_vnode = self.order != settings.key_order
        self.key = settings.key_order
        self.keys = settings.keys
        self.names = self.key.names
        self.vnodes = self.job.vnodes
        self._distribution = [
            KeyField(name=name, type=settings.types[name]) for name in self.job.upstream.distribution_key
        ]
        self._vnodes: dict[Key, int] = {}

    # --- where rows lie ---------------------------------------------------------------------------

    def key_of(self, row: Row) -> Key:
        """Return a row's key."""
        return tuple([row[name] for name in self.names])

    def vnode_of(self, row: Row) -> int:
        """Return a row's vnode."""
        values = self._distributed_by(row)
        if values not in self._vnodes:
            self._hash([row])
        return self._vnodes[values]

    def _distributed_by(self, row: Row) -> Key:
        return tuple([row[name] for name in self.job.upstream.distribution_key])

    def _hash(self, rows: Iterable[Row]) -> None:
        """Work out the vnodes of many rows at once: the hash costs the same for one and for a thousand."""
        new = list({values: None for row in rows if (values := self._distributed_by(row)) not in self._vnodes})
        if new:
            columns = zip(self._distribution, zip(*new, strict=True), strict=True)
            hashed = pa.table({field.name: pa.array(values, arrow_type(field)) for field, values in columns})
            vnodes = vnodes_of(hashed, self._distribution, self.job.vnode_count).to_pylist()
            self._vnodes.update(zip(new, vnodes, strict=True))

    def place_of(self, row: Row) -> Position:
        """Return a row's position in the scan's order."""
        return (self.vnode_of(row), *self.key_of(row)) if self.by_vnode else self.key_of(row)

    def at(self, version: int) -> Rows:
        """Return the rows that the job is about, as of a version; none before the first."""
        if version < 0:
            return {}
        found = list(self._read(version))
        self._hash(found)
        rows = [
            row for row in found if self.keys.contains(self.key_of(row), self.key) and self.vnode_of(row) in self.vnodes
        ]
        if len({self.key_of(row) for row in rows}) < len(rows):
            raise DuplicateKeyError("several rows have the same key")
        return {self.place_of(row): row for row in rows}

    def as_of(self, reads: Iterable[PinnedRead]) -> Rows:
        """Return rows, those in some ranges as of one version, others as of another."""
        return {
            place: row
            for read in reads
            for place, row in self.within(self.at(read.offset.number), decoded(read.ranges, self.order)).items()
        }

    def within(self, rows: Rows, ranges: Sequence[KeyRange]) -> Rows:
        """Return the rows that lie in one of some ranges."""
        return {place: row for place, row in rows.items() if self.covers(ranges, place)}

    def covers(self, ranges: Iterable[KeyRange], place: Position) -> bool:
        """Tell whether a position lies in one of some ranges."""
        return any(covered.contains(place, self.order) for covered in ranges)

    def by_key(self, rows: Mapping[Position, Row | None]) -> dict[Key, Row | None]:
        """Return what became of each key; the row of a key that moved between vnodes is where it went."""
        found: dict[Key, Row | None] = {}
        for place, row in rows.items():
            key = place[1:] if self.by_vnode else place
            found[key] = row if row is not None else found.get(key)
        return found

    def counted(self, rows: Rows) -> dict[int, int]:
        """Count rows by vnode, under ``no_shuffle`` all under 0."""
        return dict(Counter(self.vnode_of(row) if self.by_vnode else 0 for row in rows.values()))

    # --- one epoch --------------------------------------------------------------------------------

    def chunk(self, barrier: Barrier, part: int) -> Rows:
        """Return the rows of one part of the chunk."""
        ranges = decoded(barrier.parts[part].ranges, self.order)
        if self.by_vnode:
            return self.within(self.arrangement.rows(barrier.epoch), ranges)
        return self.within(self.at(barrier.chunk_offset.number), ranges)

    def net_changes(self, barrier: Barrier) -> dict[Position, Change]:
        """Return the net change of every position that changed behind the version that it was read at."""
        net: dict[Position, Change] = {}
        first, last = barrier.changes_after.number, barrier.upstream.to_offset.number
        rows = {version: self.at(version) for version in range(first, last + 1)}
        for version in range(first + 1, last + 1):
            before, after = rows[version - 1], rows[version]
            for place in before.keys() | after.keys():
                known = self.version_of(place, barrier)
                if before.get(place) != after.get(place) and known is not None and version > known:
                    net[place] = Change(after.get(place), place not in rows[known])
        return net

    def version_of(self, place: Position, barrier: Barrier) -> int | None:
        """Return the version behind which the epoch needs changes of a position; ``None`` if they wait."""
        for read in barrier.view_before:
            if self.covers(decoded(read.ranges, self.order), place):
                return read.offset.number if barrier.publishes else None
        return barrier.upstream.from_offset.number

    def let_through(self, barrier: Barrier) -> dict[Position, Change]:
        """Return the changes of what was read before."""
        read_before = decoded(barrier.read_before, self.order)
        if not read_before:
            return {}
        net = self.net_changes(barrier)
        return {place: change for place, change in net.items() if self.covers(read_before, place)}

    def hold_back(self, barrier: Barrier) -> None:
        """Append the changes of what was not read before to the arrangement, once, if there is one."""
        if not self.by_vnode:
            return
        read_before = decoded(barrier.read_before, self.order)
        net = self.net_changes(barrier)
        if held_back := {place: change for place, change in net.items() if not self.covers(read_before, place)}:
            reached(CrashPoint.BEFORE_ARRANGEMENT_COMMIT)
            self.arrangement.append(held_back, barrier.epoch)
            reached(CrashPoint.AFTER_ARRANGEMENT_COMMIT)

    def read_after(self, barrier: Barrier) -> int | None:
        """Count the rows that the view is the query of after the epoch; ``None`` if they are as of several versions."""
        if barrier.single_offset is None:
            return None if barrier.view_after else 0
        return len(self.as_of(barrier.view_after))

    def ensure_arrangement(self) -> None:
        """Make the arrangement's base, if the strategy has one and it is not there."""
        if self._settings.start is not None:
            reached(CrashPoint.BEFORE_ARRANGEMENT_COMMIT)
            self.arrangement.ensure(lambda: self.at(self._settings.start.offset.number))
            reached(CrashPoint.AFTER_ARRANGEMENT_COMMIT)

    @cached_property
    def arrangement(self) -> PlainArrangement:
        """The arrangement."""
        return PlainArrangement(self._settings)


class PlainArrangement:
    """An arrangement in Delta, written without a JVM."""

    def __init__(self, settings: JobSettings) -> None:
        self._path = location_of(settings)
        self._base_epoch = settings.base_epoch
        self._order = settings.scan.order
        self._own = settings.own_columns
        types = {column.name: column.type for column in settings.upstream.columns}
        others = [KeyField(name=name, type=types[name]) for name in types if name not in self._order.names]
        self._columns = [*types]
        self._schema = pa.schema(
            [
                *((field.name, arrow_type(field)) for field in self._order.fields),
                (self._own.epoch, pa.int64()),
                (self._own.is_upsert, pa.bool_()),
                (self._own.appeared, pa.bool_()),
                *((field.name, arrow_type(field)) for field in others),
            ]
        )

    def ensure(self, rows: Callable[[], Rows]) -> None:
        """Make the base, by one rename, unless it is there."""
        with _LOCK:
            if ArrangementFiles(self._path).exists():
                return
            base = self._table({place: Change(row, False) for place, row in rows().items()}, self._base_epoch)
            size = -(-base.num_rows // FILES) or 1
            for start in range(0, base.num_rows or 1, size):
                write_deltalake(f"{self._path}.new", base.slice(start, size), mode="append")
            Path(f"{self._path}.new").rename(self._path)

    def append(self, changes: Mapping[Position, Change], epoch: int) -> None:
        """Append an epoch's changes of rows that are not read yet, unless they are there."""
        with _LOCK:
            newest = max((entry[self._own.epoch] for entry in self._entries()), default=self._base_epoch)
            if epoch in self._given_up():
                raise EpochGivenUpError(f"the changes of epoch {epoch} were given up")
            if newest > epoch:
                raise EpochFailedError(f"epoch {epoch} was overtaken")
            if newest < epoch:
                write_deltalake(self._path, self._table(changes, epoch), mode="append")

    def fence(self, epoch: int) -> bool:
        """Let nobody append an epoch's changes any more, unless they are there; return whether they are not."""
        with _LOCK:
            if ArrangementFiles(self._path).exists() and any(
                entry[self._own.epoch] == epoch for entry in self._entries()
            ):
                return False
            Path(f"{self._path}.given_up").mkdir(parents=True, exist_ok=True)
            Path(f"{self._path}.given_up", str(epoch)).touch()
            return True

    def _given_up(self) -> set[int]:
        return {int(file.name) for file in Path(f"{self._path}.given_up").glob("*")}

    def rows(self, epoch: int) -> Rows:
        """Return the newest rows as of an epoch."""
        newest: dict[Position, Row] = {}
        for entry in sorted(self._entries(), key=lambda entry: entry[self._own.epoch]):
            place = tuple(entry[name] for name in self._order.names)
            if entry[self._own.epoch] <= epoch:
                assert not (entry[self._own.epoch] == self._base_epoch and place in newest), (
                    "the base has a position twice"
                )
                newest[place] = entry
        return {
            place: {name: entry[name] for name in self._columns}
            for place, entry in newest.items()
            if entry[self._own.is_upsert]
        }

    def _entries(self) -> list[Row]:
        if not ArrangementFiles(self._path).exists():
            raise EpochFailedError(f"the arrangement at {self._path} is gone")
        return DeltaTable(self._path).to_pyarrow_table().to_pylist()

    def _table(self, changes: Mapping[Position, Change], epoch: int) -> pa.Table:
        entries = []
        for place in in_order(changes, self._order):
            row, appeared = changes[place]
            keys = dict(zip(self._order.names, place, strict=True))
            flags = {self._own.is_upsert: row is not None, self._own.appeared: appeared}
            entries.append({**(row or {}), **keys, self._own.epoch: epoch, **flags})
        return pa.Table.from_pylist(entries, schema=self._schema)


class CountingEngine:
    """
    Knows how many rows a chunk has, and writes nothing but the arrangement and the view's identity.

    :param missing: keys that comparisons find missing, one after another.
    """

    def __init__(self, missing: list[Sequence[str]] | None = None) -> None:
        self.missing = [] if missing is None else missing

    def check(
        self,
        job: BackfillJob,
        upstream: ResolvedUpstream,
        offset: Offset,
        strategy: str,
        incarnations: frozenset[str],
    ) -> None:
        """Refuse nothing."""

    def ensure_tables(self, settings: JobSettings, earlier_incarnations: Mapping[str, int]) -> None:
        """Make the view's empty table and the arrangement exist."""
        wanted = ViewIdentity(settings.job["name"], settings.incarnation)
        view = settings.job["materialized_view"]
        if view_identity(view) != wanted:
            DeltaTable.create(
                view,
                schema=pa.schema([("rows_are_only_counted", pa.int64())]),
                mode="overwrite",
                configuration={JOB_PROPERTY: wanted.job, INCARNATION_PROPERTY: wanted.incarnation},
                raise_if_key_not_exists=False,
            )
        source_of(settings).ensure_arrangement()

    def execute(self, settings: JobSettings, barrier: Barrier, *, since: TableVersions | None) -> EpochWrites:
        """Count everything."""
        changes = self.apply_changes(settings, barrier, since=since)
        rows: Counter[int] = Counter()
        for part in range(len(barrier.parts)):
            rows.update(self.read_part(settings, barrier, part, since=since).rows)
        return EpochWrites(dict(rows), sum(changes.rows.values()), rows_added=changes.rows_added)

    def apply_changes(self, settings: JobSettings, barrier: Barrier, *, since: TableVersions | None) -> PartWrites:
        """Count the changes."""
        source = source_of(settings)
        source.hold_back(barrier)
        changes = source.let_through(barrier).values()
        return PartWrites({0: len(changes)}, rows_added=sum(change.added for change in changes))

    def read_part(
        self, settings: JobSettings, barrier: Barrier, part: int, *, since: TableVersions | None
    ) -> PartWrites:
        """Count one part of the chunk."""
        source = source_of(settings)
        return PartWrites(source.counted(source.chunk(barrier, part)))

    def table_versions(self, settings: JobSettings, barrier: Barrier, *, since: TableVersions | None) -> TableVersions:
        """Return a version that each epoch raises by one."""
        return TableVersions(view=TableVersion(version=10 + BackfillReader(settings.job["state"]).last_epoch()))

    def account(self, settings: JobSettings, barrier: Barrier, rows_present: int | None) -> int | None:
        """Believe what was counted."""
        return rows_present

    def fence_chunk(self, settings: JobSettings, barrier: Barrier) -> frozenset[int]:
        """Find nothing written."""
        return frozenset()

    def fence_changes(self, settings: JobSettings, barrier: Barrier) -> bool:
        """Find nothing written but what the arrangement has."""
        source = source_of(settings)
        return not source.by_vnode or source.arrangement.fence(barrier.epoch)

    def mark_finished(self, settings: JobSettings, barrier: Barrier) -> None:
        """Do nothing."""

    def take_back_finished(self, settings: JobSettings, barrier: Barrier) -> None:
        """Do nothing."""

    def compare(
        self, settings: JobSettings, pinned: PinnedVerification, barrier: Barrier, vnodes: VnodeRange
    ) -> ComparedVnodes:
        """Find the keys missing that a test says are; it gets to know of nothing else."""
        keys = self.missing.pop(0) if self.missing else ()
        return compared_of(*vnodes, *((vnodes[0], key) for key in keys))

    def compact_view(self, settings: JobSettings, plan: CompactionPlan) -> None:
        """Have deltalake do what is planned."""
        DeltaTable(settings.job["materialized_view"]).optimize.compact(target_size=plan.target_file_size)

    def compact_own_table(self, settings: JobSettings, name: str, plan: CompactionPlan) -> None:
        """Do nothing; deltalake would write the base together with the changes."""

    def exclusive(self, settings: JobSettings) -> AbstractContextManager[None]:
        """Take no turns."""
        return nullcontext()


def make(
    backfill: Backfill,
    action: Callable[..., JobSettings] = creation.create_job,
    *,
    requested_by: str = "tester",
) -> JobSettings:
    """Create or rebuild a job that a counting engine runs."""
    return action(
        backfill.job,
        store=backfill.store,
        upstream=backfill.upstream,
        engine=CountingEngine,
        requested_by=requested_by,
    )


def source_of(settings: JobSettings) -> PlainSource:
    """Return the job's upstream, which is read anew every time."""
    return PlainSource(settings, lambda version: read_version(settings.job["upstream"]["path"], version))
