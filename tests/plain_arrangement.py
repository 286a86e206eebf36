"""An arrangement as a real Delta table, written without a JVM: barriers are planned on its files."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from airflow_backfill_provider.core.epoch.settings import JobSettings
from airflow_backfill_provider.core.errors import EpochFailedError, EpochGivenUpError
from airflow_backfill_provider.core.scan.keys import KeyField, Position
from airflow_backfill_provider.lake.files.key_index import arrow_type
from airflow_backfill_provider.strategies.arrangement.files import ArrangementFiles
from airflow_backfill_provider.strategies.arrangement.location import location_of
from tests.builders import Logged, in_order, logged

Row = dict[str, Any]

Rows = dict[Position, Row]
"""Rows by their positions in the scan's order."""

FILES = 3
"""The number of files of an arrangement's base."""

_LOCK = threading.RLock()


@lru_cache(256)
def _read(path: str, _: Logged) -> list[Row]:
    """Return the rows of an arrangement, which are read often between two commits."""
    return DeltaTable(path).to_pyarrow_table().to_pylist()


class Change(NamedTuple):
    """The net change of one position: its row afterwards, if it has one, and whether it had none before."""

    row: Row | None
    appeared: bool

    @property
    def added(self) -> int:
        """The difference in the number of rows."""
        return (self.row is not None) - (not self.appeared)


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
        """Make the base, by one rename, unless it exists."""
        with _LOCK:
            if ArrangementFiles(self._path).exists():
                return
            base = self._table({position: Change(row, False) for position, row in rows().items()}, self._base_epoch)
            size = -(-base.num_rows // FILES) or 1
            for start in range(0, base.num_rows or 1, size):
                write_deltalake(f"{self._path}.new", base.slice(start, size), mode="append")
            Path(f"{self._path}.new").rename(self._path)

    def append(self, changes: Mapping[Position, Change], epoch: int) -> None:
        """Append an epoch's changes of rows that are not read yet, unless they were appended."""
        with _LOCK:
            newest = max((entry[self._own.epoch] for entry in self._entries()), default=self._base_epoch)
            if epoch in self._given_up():
                raise EpochGivenUpError(f"the changes of epoch {epoch} were given up")
            if newest > epoch:
                raise EpochFailedError(f"epoch {epoch} was overtaken")
            if newest < epoch:
                write_deltalake(self._path, self._table(changes, epoch), mode="append")

    def fence(self, epoch: int) -> bool:
        """Refuse an epoch's changes from now on; return whether they were not written before."""
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
            position = tuple(entry[name] for name in self._order.names)
            if entry[self._own.epoch] <= epoch:
                assert not (entry[self._own.epoch] == self._base_epoch and position in newest), (
                    "the base has a position twice"
                )
                newest[position] = entry
        return {
            position: {name: entry[name] for name in self._columns}
            for position, entry in newest.items()
            if entry[self._own.is_upsert]
        }

    def _entries(self) -> list[Row]:
        if not ArrangementFiles(self._path).exists():
            raise EpochFailedError(f"the arrangement at {self._path} is gone")
        return _read(self._path, logged(self._path))

    def _table(self, changes: Mapping[Position, Change], epoch: int) -> pa.Table:
        entries = []
        for position in in_order(changes, self._order):
            row, appeared = changes[position]
            keys = dict(zip(self._order.names, position, strict=True))
            flags = {self._own.is_upsert: row is not None, self._own.appeared: appeared}
            entries.append({**(row or {}), **keys, self._own.epoch: epoch, **flags})
        return pa.Table.from_pylist(entries, schema=self._schema)
