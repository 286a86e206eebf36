"""What an engine does with the rows of a Delta table, in plain Python for all strategies: vnodes, chunks, net changes.

Spark is not imitated, its results are: changes are found by comparing versions instead of reading a change feed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, lru_cache

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, QueryBuilder

from airflow_backfill_provider.core.epoch.barrier import Barrier, PinnedRead, decoded
from airflow_backfill_provider.core.epoch.crash_points import CrashPoint, reached
from airflow_backfill_provider.core.epoch.settings import JobSettings
from airflow_backfill_provider.core.errors import DuplicateKeyError
from airflow_backfill_provider.core.scan.keys import EVERYTHING, KeyField, KeyRange, Position
from airflow_backfill_provider.lake.files.key_index import arrow_type
from airflow_backfill_provider.lake.files.vnode_hash import vnodes_of
from airflow_backfill_provider.sources.delta.source import DeltaSource
from tests.builders import Key, Logged, commit_file, logged
from tests.plain_arrangement import Change, PlainArrangement, Row, Rows


def read_version(path: str, version: int) -> list[Row]:
    """Return the rows of a Delta table at a version; many tests read the same ones, so the newest are remembered."""
    return _read_version(
        path, version, tuple(file for file in logged(path) if file[0] <= commit_file(path, version).name)
    )


@lru_cache(256)
def _read_version(path: str, version: int, _: Logged) -> list[Row]:
    answer = QueryBuilder().register("upstream", DeltaTable(path, version=version)).execute("SELECT * FROM upstream")
    return pa.table(answer.read_all()).to_pylist()


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
        self.by_vnode = settings.own_columns.vnode in self.order.names
        self.by_file = not self.by_vnode and self.order != settings.key_order
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

    def position_of(self, row: Row) -> Position:
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
        return {self.position_of(row): row for row in rows}

    def as_of(self, reads: Iterable[PinnedRead]) -> Rows:
        """Return rows, those in some ranges as of one version, others as of another."""
        return {
            position: row
            for read in reads
            for position, row in self.within(self.at(read.offset.number), decoded(read.ranges, self.order)).items()
        }

    def within(self, rows: Rows, ranges: Sequence[KeyRange]) -> Rows:
        """Return the rows that lie in one of some ranges."""
        return {position: row for position, row in rows.items() if self.covers(ranges, position)}

    def covers(self, ranges: Iterable[KeyRange], position: Position) -> bool:
        """Return whether a position lies in one of some ranges; under ``snapshot``, a row's place in the files."""
        if self.by_file:
            ranges = [*ranges]
            if EVERYTHING in ranges:
                return True
            # A row that the pinned version does not have is read by no chunk.
            place = self.places.get(position)
            return place is not None and any(covered.contains(place, self.order) for covered in ranges)
        return any(covered.contains(position, self.order) for covered in ranges)

    @cached_property
    def places(self) -> dict[Key, Position]:
        """The number of the file and the index of the row of each key, in the version that all files are read at."""
        assert self._settings.start is not None
        path, offset = self.job.upstream.location, self._settings.start.offset
        found = {}
        for number, file in enumerate(DeltaSource(path).numbered_files.files(offset)):
            for index, row in enumerate(pq.read_table(f"{path}/{file.path}").to_pylist()):
                found[self.key_of(row)] = (number, index)
        return found

    def by_key(self, rows: Mapping[Position, Row | None]) -> dict[Key, Row | None]:
        """Return the row of each key; a key that moved between vnodes has the row of its new vnode."""
        found: dict[Key, Row | None] = {}
        for position, row in rows.items():
            key = position[1:] if self.by_vnode else position
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
        """Return the net change of every position that changed after the version that it was read at."""
        net: dict[Position, Change] = {}
        first, last = barrier.changes_after.number, barrier.upstream.to_offset.number
        rows = {version: self.at(version) for version in range(first, last + 1)}
        for version in range(first + 1, last + 1):
            before, after = rows[version - 1], rows[version]
            for position in before.keys() | after.keys():
                known = self.version_of(position, barrier)
                if before.get(position) != after.get(position) and known is not None and version > known:
                    net[position] = Change(after.get(position), position not in rows[known])
        return net

    def version_of(self, position: Position, barrier: Barrier) -> int | None:
        """Return the version after which the epoch needs changes of a position; ``None`` if they wait."""
        for read in barrier.view_before:
            if self.covers(decoded(read.ranges, self.order), position):
                return read.offset.number if barrier.publishes else None
        # What is not read yet belongs into the arrangement, which gets nothing while changes wait.
        return self.arranged_up_to(barrier) if barrier.publishes else None

    @staticmethod
    def arranged_up_to(barrier: Barrier) -> int | None:
        """Return the version that the arrangement is as of before an epoch: that of the newest chunk."""
        newest = max((read.offset for read in barrier.view_before), default=barrier.upstream.from_offset)
        return newest.number

    def let_through(self, barrier: Barrier) -> dict[Position, Change]:
        """Return the changes of what was read before."""
        read_before = decoded(barrier.read_before, self.order)
        if not read_before:
            return {}
        net = self.net_changes(barrier)
        return {position: change for position, change in net.items() if self.covers(read_before, position)}

    def hold_back(self, barrier: Barrier) -> None:
        """Append the changes of what was not read before to the arrangement, once, if there is one."""
        if not self.by_vnode:
            return
        read_before = decoded(barrier.read_before, self.order)
        net = self.net_changes(barrier)
        if held_back := {
            position: change for position, change in net.items() if not self.covers(read_before, position)
        }:
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
        if self.by_vnode and self._settings.start is not None:
            reached(CrashPoint.BEFORE_ARRANGEMENT_COMMIT)
            self.arrangement.ensure(lambda: self.at(self._settings.start.offset.number))
            reached(CrashPoint.AFTER_ARRANGEMENT_COMMIT)

    @cached_property
    def arrangement(self) -> PlainArrangement:
        """The arrangement."""
        return PlainArrangement(self._settings)


def source_of(settings: JobSettings) -> PlainSource:
    """Return the job's upstream, without a cache of its versions."""
    return PlainSource(settings, lambda version: read_version(settings.definition.upstream.location, version))
