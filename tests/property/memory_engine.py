"""
The engine of the epoch protocol in plain Python: reads the real upstream, keeps the view's rows in memory.

It replaces Spark and keeps the same promises (:class:`airflow_backfill_provider.protocol.Engine`): every
write carries epoch and digest, a write that the view's log shows is skipped, one that a later epoch overtook is
refused, and a view that anything else wrote to is not touched. On disk lie the arrangement, on whose files barriers
are planned, and the view's identity, where the protocol looks for it.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from deltalake import DeltaTable, Schema

from airflow_backfill_provider.core.epoch.barrier import Barrier, decoded
from airflow_backfill_provider.core.epoch.crash_points import CrashPoint, reached
from airflow_backfill_provider.core.epoch.engine import EpochWrites, PartWrites
from airflow_backfill_provider.core.epoch.settings import JobSettings, ResolvedUpstream, ViewColumn
from airflow_backfill_provider.core.errors import (
    EpochFailedError,
    EpochGivenUpError,
    MaterializedViewError,
    MissingRowsError,
)
from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.core.scan.table_version import TableVersion, TableVersions
from airflow_backfill_provider.lake.tables.view_identity import (
    INCARNATION_PROPERTY,
    JOB_PROPERTY,
    ViewIdentity,
    view_identity,
)
from tests.builders import Key, Logged, logged
from tests.plain_arrangement import Change, Row, Rows
from tests.plain_source import PlainSource, read_version
from tests.property.memory_queries import Output, columns_of, passes_one, query_rows, schema_of


class ViewCommit(NamedTuple):
    """A write of the view as its log shows it."""

    version: int
    part: str
    epoch: int
    digest: str
    given_up: bool = False


@dataclass
class View:
    """A materialized view: rows as a list, in which a duplicate shows, and its log.

    Its table on disk has no rows, and the same versions.
    """

    path: str
    identity: ViewIdentity
    version: int
    rows: list[tuple[Key, Output]] = field(default_factory=list)
    log: list[ViewCommit] = field(default_factory=list)
    marked_finished: list[int] = field(default_factory=list)
    past: dict[int, list[tuple[Key, Output]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Keep the first version readable."""
        self.past[self.version] = list(self.rows)

    def commit(self, schema: pa.Schema | None = None) -> None:
        """
        End a write with a new version, which stays readable.

        :param schema: the table's new columns, if it gets others.
        """
        actions: list[dict[str, Any]] = [{"commitInfo": {"operation": "WRITE"}}]
        if schema is not None:
            actions.append({"metaData": _metadata(DeltaTable(self.path), Schema.from_arrow(schema))})
        self.version += 1
        self.past[self.version] = list(self.rows)
        with Path(self.path, "_delta_log", f"{self.version:020}.json").open("x") as entry:
            entry.write("\n".join(map(json.dumps, actions)))

    def replace(self, keys: Iterable[Key], rows: Iterable[tuple[Key, Output]]) -> None:
        """Replace all rows with some keys by others."""
        gone = set(keys)
        self.rows = [(key, output) for key, output in self.rows if key not in gone]
        self.rows.extend(rows)


class Warehouse:
    """What outlives every engine: the views, and versions of upstreams once read."""

    def __init__(self) -> None:
        self.views: dict[str, View] = {}
        self.lock = threading.RLock()
        self._read: dict[tuple[str, str, int], list[Row]] = {}

    def upstream(self, path: str, table_id: str, version: int) -> list[Row]:
        """Return the rows of an upstream at a version."""
        cached = (path, table_id, version)
        if cached not in self._read:
            self._read[cached] = read_version(path, version)
        return self._read[cached]


class MemoryEngine:
    """One engine, as one Spark application has it; ``calls`` lists the calls of its methods."""

    def __init__(self, warehouse: Warehouse) -> None:
        self.warehouse = warehouse
        self.calls: list[str] = []
        self.refusal: Exception | None = None
        self.started_from: TableVersions | None = None
        self.seconds = {"chunk": 0.25, "changes": 0.5}

    def check(
        self,
        job: BackfillJob,
        upstream: ResolvedUpstream,
        offset: Offset,
        strategy: str,
        incarnations: frozenset[str],
    ) -> None:
        """Refuse a path with another table, and everything if the test has set ``refusal``."""
        self.calls.append("check")
        _require_usable(job.view_location, job.name, incarnations)
        if self.refusal is not None:
            raise self.refusal

    def view_columns(self, job: BackfillJob, upstream: ResolvedUpstream) -> tuple[ViewColumn, ...]:
        """Return the columns of a view's table."""
        return tuple(ViewColumn(name=name, type=kind) for name, kind in columns_of(job.query).items())

    def ensure_tables(self, settings: JobSettings, earlier_incarnations: Mapping[str, int]) -> None:
        """Make the empty view of the settings' incarnation, instead of that of an earlier one, and the arrangement."""
        self.calls.append("ensure_tables")
        if self.refusal is not None:
            raise self.refusal
        path, mine = settings.definition.view_location, ViewIdentity.of(settings)
        with self.warehouse.lock:
            if _require_usable(path, mine.job, frozenset(earlier_incarnations) | {mine.incarnation}) != mine:
                properties = {JOB_PROPERTY: mine.job, INCARNATION_PROPERTY: mine.incarnation}
                DeltaTable.create(
                    path, schema_of(settings), mode="overwrite", configuration=properties, raise_if_key_not_exists=False
                )
                self.warehouse.views[path] = self._new_view(path, settings)
        if settings.first_rows is None:
            self._source(settings).ensure_arrangement()

    def _new_view(self, path: str, settings: JobSettings) -> View:
        views, first = self.warehouse.views, settings.first_rows
        return View(
            path,
            ViewIdentity.of(settings),
            DeltaTable(path).version(),
            rows=[] if first is None else list(views[first.location].past[first.version]),
            marked_finished=[] if first is None else [settings.base_epoch],
            past=views[path].past if path in views else {},
        )

    def run_epoch(self, settings: JobSettings, barrier: Barrier, *, since: TableVersions | None) -> EpochWrites:
        """Write the changes, then every part of the chunk, each once."""
        self.calls.append(f"execute {barrier.epoch}")
        source = self._begin(settings, barrier, since)
        parts = range(len(barrier.parts))
        # What an arrangement holds at the window's end is known once the changes are written.
        early = [] if source.by_vnode else [source.chunk(barrier, part) for part in parts]
        changes = self._changes(settings, barrier, source)
        rows: Counter[int] = Counter()
        for part in parts:
            chunk = early[part] if early else source.chunk(barrier, part)
            rows.update(self._append(settings, barrier, part, source, chunk))
        return EpochWrites(dict(rows), len(changes), dict(self.seconds), rows_added=_added(changes))

    def apply_changes(self, settings: JobSettings, barrier: Barrier, *, since: TableVersions | None) -> PartWrites:
        """Write the changes, once."""
        self.calls.append(f"changes {barrier.epoch}")
        source = self._begin(settings, barrier, since)
        changes = self._changes(settings, barrier, source)
        return PartWrites({0: len(changes)}, {"changes": self.seconds["changes"]}, rows_added=_added(changes))

    def read_chunk_part(
        self, settings: JobSettings, barrier: Barrier, part: int, *, since: TableVersions | None
    ) -> PartWrites:
        """Write one part of the chunk, once."""
        self.calls.append(f"part {part} of {barrier.epoch}")
        source = self._begin(settings, barrier, since)
        chunk = source.chunk(barrier, part)
        rows = self._append(settings, barrier, part, source, chunk)
        return PartWrites(rows, {"chunk": self.seconds["chunk"]})

    def table_versions(self, settings: JobSettings, barrier: Barrier, *, since: TableVersions | None) -> TableVersions:
        """Return the view's newest version, unless something else wrote to it."""
        self._require_untouched(settings, barrier, since)
        return TableVersions(view=TableVersion(version=self._view(settings).version))

    def account(self, settings: JobSettings, barrier: Barrier, rows_present: int | None) -> int | None:
        """Hold what was counted against what there is, where the view is as of one version."""
        there = self._source(settings, barrier.upstream.table_id).read_after(barrier)
        if None not in (rows_present, there) and rows_present != there:
            raise MissingRowsError(f"epoch {barrier.epoch} has {rows_present} of {there} rows")
        return rows_present

    def fence_chunk(self, settings: JobSettings, barrier: Barrier) -> frozenset[int]:
        """Give up the parts of the chunk that are not written."""
        self.calls.append(f"fence chunk {barrier.epoch}")
        parts = range(len(barrier.parts))
        return frozenset(part for part in parts if self._fence(f"snapshot/{part}", settings, barrier))

    def fence_changes(self, settings: JobSettings, barrier: Barrier) -> bool:
        """Give up the changes, in the order in which they are written, unless some of them are."""
        self.calls.append(f"fence changes {barrier.epoch}")
        if any(self._fence(part, settings, barrier) for part in ("changes", "repair")):
            return False
        source = self._source(settings)
        return not source.by_vnode or source.arrangement.fence(barrier.epoch)

    def mark_finished(self, settings: JobSettings, barrier: Barrier) -> None:
        """Publish that the view is finished, unless it says so."""
        self.calls.append("mark_finished")
        with self.warehouse.lock:
            view = self._view(settings)
            if not view.marked_finished:
                view.marked_finished.append(barrier.epoch)
                view.commit()

    def unmark_finished(self, settings: JobSettings, barrier: Barrier) -> None:
        """Publish that the view is not finished, if it says that it is, and is of this incarnation."""
        with self.warehouse.lock:
            view = self.warehouse.views[settings.definition.view_location]
            if view.identity == ViewIdentity.of(settings) and view.marked_finished:
                view.marked_finished.clear()
                view.commit()

    def reading_ahead(self, settings: JobSettings) -> AbstractContextManager[None]:
        """Read nothing ahead."""
        return nullcontext()

    def exclusive(self, state: str) -> AbstractContextManager[None]:
        """Take no turns: the protocol must be safe without."""
        return nullcontext()

    # --- one epoch --------------------------------------------------------------------------------

    def _begin(self, settings: JobSettings, barrier: Barrier, since: TableVersions | None) -> PlainSource:
        self.started_from = since
        if self.refusal is not None:
            raise self.refusal
        self._require_untouched(settings, barrier, since)
        return self._source(settings, barrier.upstream.table_id)

    def _source(self, settings: JobSettings, table_id: str | None = None) -> PlainSource:
        table_id = table_id or settings.upstream.table_id
        return PlainSource(
            settings, lambda version: self.warehouse.upstream(settings.job["upstream"]["path"], table_id, version)
        )

    def _changes(self, settings: JobSettings, barrier: Barrier, source: PlainSource) -> Collection[Change]:
        visible = source.let_through(barrier)
        changed = source.by_key({position: change.row for position, change in visible.items()})
        reached(CrashPoint.BEFORE_CHANGES_COMMIT)
        if changed and not barrier.computes_whole:
            self._once(
                "changes", settings, barrier, lambda view: view.replace(changed.keys(), query_rows(settings, changed))
            )
        reached(CrashPoint.AFTER_CHANGES_COMMIT)
        if barrier.rewrites_rows:
            self._repair(settings, barrier, source)
        source.hold_back(barrier)
        return visible.values()

    def _repair(self, settings: JobSettings, barrier: Barrier, source: PlainSource) -> None:
        """Write chosen rows again, or those that another filter concerns; a repair of a vnode also removes strays."""
        keys = {source.key.decode(key) for key in barrier.repair.keys}
        read = source.within(source.at(barrier.upstream.to_offset.number), decoded(barrier.read_before, source.order))
        known = source.by_key(read)
        chosen = {
            key: row
            for key, row in known.items()
            if row is not None
            and (key in keys or source.vnode_of(row) in barrier.repair.vnodes or passes_one(barrier, row))
        }

        def write(view: View) -> None:
            strays = {key for key, _ in view.rows} - known.keys() if barrier.repair.vnodes else set()
            view.replace({*keys, *chosen, *strays}, query_rows(settings, chosen))

        schema = None if barrier.columns_change is None else schema_of(settings)
        self._once("repair", settings, barrier, write, schema)

    def _append(
        self, settings: JobSettings, barrier: Barrier, part: int, source: PlainSource, chunk: Rows
    ) -> dict[int, int]:
        rows = source.by_key(chunk)
        reached(CrashPoint.BEFORE_SNAPSHOT_COMMIT)
        self._once(f"snapshot/{part}", settings, barrier, lambda view: view.rows.extend(query_rows(settings, rows)))
        reached(CrashPoint.AFTER_SNAPSHOT_COMMIT)
        return source.counted(chunk)

    # --- writing ----------------------------------------------------------------------------------

    def _once(
        self,
        part: str,
        settings: JobSettings,
        barrier: Barrier,
        write: Callable[[View], None],
        schema: pa.Schema | None = None,
    ) -> None:
        with self.warehouse.lock:
            view = self._view(settings)
            epochs = {commit.epoch: commit for commit in view.log if commit.part == part}
            if barrier.epoch in epochs:
                if epochs[barrier.epoch].digest != barrier.digest:
                    raise MaterializedViewError(f"epoch {barrier.epoch} was written from another plan")
                if epochs[barrier.epoch].given_up:
                    raise EpochGivenUpError(f"part {part} of epoch {barrier.epoch} was given up")
                return
            if max(epochs, default=0) > barrier.epoch:
                raise EpochFailedError(f"epoch {barrier.epoch} was overtaken")
            write(view)
            view.commit(schema)
            view.log.append(ViewCommit(view.version, part, barrier.epoch, barrier.digest))

    def _fence(self, part: str, settings: JobSettings, barrier: Barrier) -> bool:
        """Use up the transaction id of a part that is not written; return whether it was written."""
        with self.warehouse.lock:
            view = self._view(settings)
            epochs = {commit.epoch: commit for commit in view.log if commit.part == part}
            if barrier.epoch in epochs:
                return not epochs[barrier.epoch].given_up
            if max(epochs, default=0) > barrier.epoch:
                raise EpochFailedError(f"epoch {barrier.epoch} was overtaken")
            view.commit()
            view.log.append(ViewCommit(view.version, part, barrier.epoch, barrier.digest, given_up=True))
            return False

    def _view(self, settings: JobSettings) -> View:
        path, mine = settings.definition.view_location, ViewIdentity.of(settings)
        view = self.warehouse.views.get(path)
        if view is None or view.identity != mine or _identity(path, logged(path)) != mine:
            raise MaterializedViewError(f"{path} is not the view of {mine} any more")
        return view

    def _require_untouched(self, settings: JobSettings, barrier: Barrier, since: TableVersions | None) -> None:
        with self.warehouse.lock:
            view = self._view(settings)
            if since is not None and view.version < since.view.version:
                raise MaterializedViewError("the view went back")
            for commit in view.log:
                if (since is None or commit.version > since.view.version) and commit.digest != barrier.digest:
                    raise MaterializedViewError(f"version {commit.version} was not written by epoch {barrier.epoch}")


def _metadata(table: DeltaTable, schema: Schema) -> dict[str, Any]:
    """Return a table's metadata with other columns, as a commit has it."""
    known = table.metadata()
    return {
        "id": str(known.id),
        "format": {"provider": "parquet", "options": {}},
        "schemaString": schema.to_json(),
        "partitionColumns": [],
        "configuration": known.configuration,
        "createdTime": known.created_time,
    }


@lru_cache(256)
def _identity(path: str, _: Logged) -> ViewIdentity | None:
    """Return the identity of a view, which is asked for more often than anybody commits to it."""
    return view_identity(path)


def _require_usable(path: str, job: str, incarnations: frozenset[str]) -> ViewIdentity | None:
    found = view_identity(path)
    if found is not None and (found.job != job or found.incarnation not in incarnations):
        raise MaterializedViewError(f"{path} holds the view of job {found.job}")
    return found


def _added(changes: Iterable[Change]) -> int:
    return sum(change.added for change in changes)
