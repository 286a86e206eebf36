"""
Builders of what the fast tests need: jobs, settings, barriers, and small real upstreams written without a JVM.

Every builder gives something valid; a test names only the fields that it is about.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from airflow_backfill_provider.core.epoch.barrier import Barrier, PinnedPart, PinnedRange, decoded
from airflow_backfill_provider.core.epoch.epoch_record import EpochCommit, EpochReport
from airflow_backfill_provider.core.epoch.settings import JobSettings, ResolvedUpstream, SettingsChange, UpstreamColumn
from airflow_backfill_provider.core.epoch.window import UpstreamWindow
from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.core.job.requester import Requester
from airflow_backfill_provider.core.scan.file_statistics import FileStatistics
from airflow_backfill_provider.core.scan.keys import EncodedPosition, KeyField, KeyOrder, KeyRange, KeyValue, Position
from airflow_backfill_provider.core.status.differences import DifferenceKind, DifferingKey, VnodeDifference
from airflow_backfill_provider.core.status.verification import ComparedVnodes, PinnedVerification, ReadVnodes
from airflow_backfill_provider.sources.delta.source import DeltaSource
from airflow_backfill_provider.sources.delta.versions import offset_of

NOW = dt.datetime(2026, 3, 29, 1, 30, tzinfo=dt.UTC)
CHANGE_DATA_FEED = {"delta.enableChangeDataFeed": "true"}
PAID = "SELECT id, amount * 100 AS cents FROM upstream WHERE status = 'paid'"

Key = tuple[KeyValue | None, ...]


def visible_after(barrier: Barrier, order: KeyOrder) -> tuple[KeyRange, ...]:
    """Return the ranges whose rows the view shows once an epoch is committed (I1)."""
    return tuple(covered for read in barrier.view_after for covered in decoded(read.ranges, order))


def order_of(*columns: str | tuple[str, bool]) -> KeyOrder:
    """Return the order of key columns ``k1, k2, …`` of these types; ``(type, True)`` descends."""
    pairs = [(column, False) if isinstance(column, str) else column for column in columns]
    return KeyOrder(
        tuple(KeyField(name=f"k{i}", type=kind, descending=down) for i, (kind, down) in enumerate(pairs, 1))
    )


def job_fields(folder: str | Path = "/lake", **changes: Any) -> dict[str, Any]:
    """Return the fields of a job over the orders in a folder; a change to ``None`` is the value ``None``."""
    return {
        "name": "paid_orders",
        "upstream": {"path": f"{folder}/orders", "key": ["id"]},
        "materialized_view": f"{folder}/paid_orders",
        "query": PAID,
        "vnode_count": 4,
        **changes,
    }


def job_of(folder: str | Path = "/lake", **changes: Any) -> BackfillJob:
    """Return such a job."""
    return BackfillJob(**job_fields(folder, **changes))


def settings_of(job: BackfillJob | None = None, *, types: dict[str, str] | None = None, **changes: Any) -> JobSettings:
    """Return the first settings of a job whose used columns have these types."""
    job = job or job_of()
    types = types or {"id": "long", "status": "string", "amount": "long"}
    fields: dict[str, Any] = {
        "sequence": 1,
        "change": SettingsChange.CREATE,
        "job": job.model_dump(mode="json"),
        "strategy": "no_shuffle",
        "shape": "row",
        "upstream": ResolvedUpstream(
            table_id="11111111-2222", columns=tuple(UpstreamColumn(name=n, type=t) for n, t in types.items())
        ),
        "incarnation": "a1",
        "rate_limit": job.rate_limit,
        "requested_by": "tester",
        "requested_at": NOW,
    }
    return JobSettings(**{**fields, **changes})


def window_of(from_version: int = -1, to_version: int = 0, **changes: Any) -> UpstreamWindow:
    """Return an upstream's version window."""
    fields: dict[str, Any] = {"table_id": "11111111-2222", "watermark": NOW, "row_count": 1000}
    return UpstreamWindow(
        **{**fields, "from_offset": offset_of(from_version), "to_offset": offset_of(to_version), **changes}
    )


def part_of(after: EncodedPosition | None, up_to: EncodedPosition | None) -> PinnedPart:
    """Return a part of a chunk with one range."""
    return PinnedPart(ranges=(PinnedRange(after=after, up_to=up_to),))


def barrier_of(epoch: int = 1, **changes: Any) -> Barrier:
    """Return the barrier of an epoch that reads a chunk and lets changes up to its beginning through."""
    fields: dict[str, Any] = {
        "job": "paid_orders",
        "incarnation": "a1",
        "epoch": epoch,
        "prev_epoch": epoch - 1,
        "definition": "d" * 32,
        "read_before": (PinnedRange(after=None, up_to=("5",)),),
        "parts": (part_of(("5",), ("9",)),),
        "completes": False,
        "rate_limit": 100,
        "paused": False,
        "settings_sequence": 1,
        "injected_by": Requester(user="tester"),
        "injected_at": NOW + dt.timedelta(minutes=epoch),
    }
    windows = (changes.pop("upstream", None) or window_of(),)
    return Barrier(**{**fields, "windows": windows, **changes})


def commit_of(barrier: Barrier, **changes: Any) -> EpochCommit:
    """Return the commit of a barrier's epoch, ten seconds after it was pinned."""
    fields: dict[str, Any] = {
        "epoch": barrier.epoch,
        "incarnation": barrier.incarnation,
        "digest": barrier.digest,
        "snapshot_read_row_count": 100,
        "upstream_output_row_count": 3,
        "rows_read": 100 * barrier.epoch,
        "state_epoch": barrier.epoch,
        "completed": False,
        "view_version": 2 * barrier.epoch,
        "watermark": barrier.upstream.watermark,
        "seconds": {"chunk": 1.5, "changes": 0.5},
        "committed_at": barrier.injected_at + dt.timedelta(seconds=10),
    }
    return EpochCommit(**{**fields, **changes})


def report_of(barrier: Barrier, part: int | None, **changes: Any) -> EpochReport:
    """Return the report of a run that read a part of a barrier's chunk; ``None`` is the one of the changes."""
    fields: dict[str, Any] = {
        "epoch": barrier.epoch,
        "incarnation": barrier.incarnation,
        "digest": barrier.digest,
        "part": part,
        "rows": {0: 3 if part is None else 100},
        "seconds": {"changes": 0.5} if part is None else {"chunk": 1.5},
        "reported_at": barrier.injected_at + dt.timedelta(seconds=5),
    }
    return EpochReport(**{**fields, **changes})


def pinned_verification_of(**changes: Any) -> PinnedVerification:
    """Return what a verification of four vnodes compares, in two steps."""
    fields: dict[str, Any] = {
        "number": 1,
        "job": "paid_orders",
        "incarnation": "a1",
        "epoch": 41,
        "upstream_version": 12,
        "view_version": 90,
        "view_table_id": "v1",
        "read": (ReadVnodes(first=0, last=3, up_to=None),),
        "by_key": False,
        "steps": ((0, 1), (2, 3)),
        "begun_by": Requester(user="vera"),
        "begun_at": NOW,
    }
    return PinnedVerification(**{**fields, **changes})


def compared_of(first: int, last: int, *keys: tuple[int, str], seconds: float = 60, **changes: Any) -> ComparedVnodes:
    """Return a step that found these keys missing, each with its vnode."""
    vnodes = sorted({vnode for vnode, _ in keys})
    fields: dict[str, Any] = {
        "first": first,
        "last": last,
        "expected_rows": 10,
        "found_rows": 10 - len(keys),
        "differences": tuple(VnodeDifference(vnode=v, missing=sum(k[0] == v for k in keys)) for v in vnodes),
        "keys": tuple(DifferingKey(kind=DifferenceKind.MISSING, vnode=vnode, key=(key,)) for vnode, key in keys),
        "compared_at": NOW + dt.timedelta(seconds=seconds),
    }
    return ComparedVnodes(**{**fields, **changes})


# --- data files in memory -------------------------------------------------------------------------


class ExactKeys:
    """
    Keys of data files in memory: the planner's index, which counts what it is asked to read.

    :param keys: file path → its keys.
    """

    def __init__(self, keys: dict[str, Sequence[Key]], order: KeyOrder) -> None:
        self.keys = keys
        self.order = order
        self.read: set[str] = set()

    def count(self, file: FileStatistics, within: KeyRange) -> int:
        """Return the number of the file's keys in a range."""
        return len(self.within([file.path], within))

    def nth(self, files: Sequence[FileStatistics], within: KeyRange, n: int) -> Position | None:
        """Return the n-th smallest of the files' keys in a range."""
        found = self.within([file.path for file in files], within)
        return found[n - 1] if n <= len(found) else None

    def within(self, paths: Iterable[str], *ranges: KeyRange) -> list[Key]:
        """Return the keys of some files that lie in a range, in order."""
        paths = list(paths)
        self.read.update(paths)
        keys = [key for path in paths for key in self.keys[path]]
        return in_order([key for key in keys if any(r.contains(key, self.order) for r in ranges)], self.order)


def in_order(keys: Iterable[Key], order: KeyOrder) -> list[Key]:
    """Sort keys, column by column from the last one: independent of :meth:`KeyOrder.compare`."""
    result = list(keys)
    for index, field in reversed(list(enumerate(order.fields))):
        nulls = [key for key in result if key[index] is None]
        values = [key for key in result if key[index] is not None]
        values.sort(
            key=lambda key: key[index].encode() if isinstance(key[index], str) else key[index],
            reverse=field.descending,
        )
        result = nulls + values
    return result


def file_of(path: str, keys: Sequence[Key], order: KeyOrder) -> FileStatistics:
    """Return exact statistics of a data file: bounds column by column, as Delta has them."""
    bounds = [
        in_order([(value,) for value in column], KeyOrder((field,)))
        for field, column in zip(order.fields, zip(*keys, strict=True), strict=True)
    ]
    return FileStatistics(
        path=path,
        row_count=len(keys),
        size=10 * len(keys),
        lower=tuple(column[0][0] for column in bounds),
        upper=tuple(column[-1][0] for column in bounds),
    )


# --- folders --------------------------------------------------------------------------------------


class Template:
    """
    A folder with tables that is made once and restored for each test, which is much quicker than writing them again.

    Locations are written into jobs and states, so the copy is restored at the same path.

    :param folder: where to keep it.
    :param make: fills the new folder.
    """

    def __init__(self, folder: Path, make: Callable[[Path], None]) -> None:
        self._copy = folder / "copy"
        self.path = folder / "läke o'brien `x\" #1"
        self.path.mkdir(parents=True)
        make(self.path)
        shutil.copytree(self.path, self._copy)

    def restore(self) -> Path:
        """Restore the folder, and return it."""
        shutil.rmtree(self.path)
        shutil.copytree(self._copy, self.path)
        return self.path


# --- upstreams in Delta ---------------------------------------------------------------------------

ORDERS = pa.schema([("id", pa.int64()), ("status", pa.string()), ("amount", pa.int64())])


class Orders:
    """
    An ``orders`` upstream in Delta with change data feed, version after version.

    :param folder: the lake; the table lies in ``orders``.
    """

    def __init__(self, folder: Path) -> None:
        self.path = str(folder / "orders")
        self.rows: dict[int | None, tuple[str | None, int | None]] = {}

    @property
    def table(self) -> DeltaSource:
        """The table as the package reads it."""
        return DeltaSource(self.path)

    def add(self, *ids: int | None, status: str | None = "paid", amount: int | None = 1) -> None:
        """Append rows as one version, in one file."""
        rows = dict.fromkeys(ids, (status, amount))
        self.rows |= rows
        self._write(rows, "append")

    def change(self, ids: Iterable[int | None], **columns: Any) -> None:
        """Update rows as one version."""
        for i in ids:
            status, amount = self.rows[i]
            self.rows[i] = (columns.get("status", status), columns.get("amount", amount))
        self._write(self.rows, "overwrite")

    def rekey(self, moves: dict[int | None, int | None]) -> None:
        """Give rows other keys as one version; swaps among them."""
        moved = {new: self.rows[old] for old, new in moves.items()}
        self.rows = {i: row for i, row in self.rows.items() if i not in moves} | moved
        self._write(self.rows, "overwrite")

    def remove(self, *ids: int | None) -> None:
        """Delete rows as one version."""
        for i in ids:
            del self.rows[i]
        self._write(self.rows, "overwrite")

    def compact(self) -> None:
        """Write a version that changes no row."""
        DeltaTable(self.path).optimize.compact()

    def _write(self, rows: dict[int | None, tuple[str | None, int | None]], mode: Any) -> None:
        ids = sorted(rows, key=lambda i: (i is not None, i or 0))
        columns = [pa.array(values) for values in ([], [], [])]
        if ids:
            columns = [
                pa.array(values, field.type)
                for values, field in zip(zip(*((i, *rows[i]) for i in ids), strict=True), ORDERS, strict=True)
            ]
        table = pa.table([column.cast(field.type) for column, field in zip(columns, ORDERS, strict=True)], ORDERS)
        write_deltalake(self.path, table, mode=mode, configuration=CHANGE_DATA_FEED)


def write_table(path: str | Path, columns: dict[str, pa.Array], **options: Any) -> DeltaSource:
    """Write one version of a table with change data feed."""
    write_deltalake(str(path), pa.table(columns), **{"mode": "append", "configuration": CHANGE_DATA_FEED, **options})
    return DeltaSource(str(path))


def restore_copy(copy: str | Path, path: str | Path) -> None:
    """Replace a folder by an older copy of it."""
    shutil.rmtree(path)
    shutil.copytree(copy, path)


def commit_file(path: str | Path, version: int) -> Path:
    """Return a version's commit file."""
    return Path(path) / "_delta_log" / f"{version:020d}.json"


Logged = tuple[tuple[str, int, int], ...]


def logged(path: str | Path) -> Logged:
    """Return names, sizes and times of the files of a table's log; they differ if anything was committed to it."""
    try:
        with os.scandir(Path(path) / "_delta_log") as files:
            found = [(file.name, (stat := file.stat()).st_size, stat.st_mtime_ns) for file in files]
    except FileNotFoundError:
        return ()
    return tuple(sorted(found))


def edit_commit(path: str | Path, version: int, **info: Any) -> None:
    """Change a version's commit information, such as ``timestamp`` (milliseconds); ``None`` takes it out."""
    file = commit_file(path, version)
    actions = [json.loads(line) for line in file.read_text(encoding="utf-8").split("\n") if line]
    for action in actions:
        if "commitInfo" in action:
            action["commitInfo"] = {k: v for k, v in (action["commitInfo"] | info).items() if v is not None}
    file.write_text("".join(json.dumps(action) + "\n" for action in actions), encoding="utf-8")


def committed_at(path: str | Path, version: int, instant: dt.datetime) -> None:
    """Make a version look as if it had been committed at an instant."""
    edit_commit(path, version, timestamp=int(instant.timestamp() * 1000))
    os.utime(commit_file(path, version), (instant.timestamp(), instant.timestamp()))
