"""
Replaces a few rows of a plain local Delta table in one commit, if it is known where the removed rows lie.

Delta's MERGE reads the touched files three times to find that out, and runs some twenty jobs of Spark. Here, the
removed rows get into deletion vectors, and the new ones into a file. Where the table has a change feed, both are also
in a file of changes, as a MERGE writes it; otherwise a reader of the feed would read the touched files whole.

The commit is exactly the one after the version that the rows were found in, or there is none. So no other writer's
commit lies between, neither one of the same transaction nor one that moves the rows to other files.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError, DeltaError

from airflow_backfill_provider.core.epoch.crash_points import CrashPoint, reached
from airflow_backfill_provider.core.errors import EpochFailedError
from airflow_backfill_provider.lake.files.deletion_vectors import few_hidden_rows, write_hidden_rows
from airflow_backfill_provider.lake.log.added_files import AppendTransaction, write_due_checkpoint
from airflow_backfill_provider.lake.log.arrow_types import arrow_schema
from airflow_backfill_provider.lake.log.delta_log import DeltaLog, commit_path
from airflow_backfill_provider.lake.log.log_state import WITH_STATISTICS, Action, log_state
from airflow_backfill_provider.lake.log.own_commits import ENGINE, milliseconds, transaction_entry, write_commit
from airflow_backfill_provider.lake.log.plain_tables import PlainTable, plain_table
from airflow_backfill_provider.lake.log.written_statistics import statistics_of
from airflow_backfill_provider.lake.store.storage import one_line, storage_errors

_CHANGE_FOLDER, _CHANGE_TYPE = "_change_data", "_change_type"

_CHANGE_TYPES = (("update_preimage", "delete"), ("update_postimage", "insert"))
"""What Delta calls the change of a row that goes, and of one that comes: if it is updated, and otherwise."""


@dataclass(frozen=True, slots=True)
class Replacement:
    """
    Rows that go, and rows that come.

    :param places: the name of a data file → the numbers of its rows that go.
    :param removed: the rows that go, in the table's columns.
    :param written: the rows that come.
    :param is_updated: of both, whether another row comes in the row's place, or the row in that of another one.
    """

    places: Mapping[str, set[int]]
    removed: pa.Table
    written: pa.Table
    is_updated: tuple[pa.ChunkedArray, pa.ChunkedArray]


def replace_rows(
    location: str, replacement: Replacement, expected: PlainTable, version: int, transaction: AppendTransaction
) -> bool:
    """
    Replace rows of a local table, unless it has moved on.

    :param expected: the table as it was when the rows were found.
    :param version: the version in which the rows lie at their places.
    :returns: whether the rows are replaced. If not, nobody refers to the files that were written.
    :raises StorageUnavailableError: if its storage does not answer; then the rows may be replaced.
    """
    try:
        with storage_errors(location):
            return _replace(location, replacement, expected, version, transaction)
    except DeltaError as error:
        raise EpochFailedError(
            f"rows could not be replaced in the Delta table at {location} ({one_line(error)}); run the epoch again"
        ) from error


def _replace(
    location: str, replacement: Replacement, expected: PlainTable, version: int, transaction: AppendTransaction
) -> bool:
    table = DeltaTable(location)
    seen = table.transaction_version(transaction.name)
    if table.version() != version or (seen is not None and seen >= transaction.version):
        return False
    if plain_table(table) != expected:
        return False
    if not expected.for_deltalake and (version + 1) % expected.checkpoint_interval == 0:
        # Only Delta writes checkpoints of such a table, and does so with its MERGE.
        return False
    found = _touched(location, version, replacement.places)
    if found is None:
        return False
    new = _NewFiles(Path(location))
    committed: bool | None = None
    try:
        actions = [
            _info(replacement, version, transaction),
            transaction_entry(transaction.name, transaction.version),
            *new.of(replacement, found, expected),
        ]
        reached(CrashPoint.BEFORE_FILES_COMMIT)
        committed = _commit(location, version + 1, actions)
    finally:
        # After an error the commit may be there all the same, and needs its files.
        if committed is False or (committed is None and not Path(location, commit_path(version + 1)).exists()):
            new.remove()
    if committed and expected.for_deltalake:
        table.update_incremental()
        write_due_checkpoint(table, location, expected)
    return bool(committed)


@dataclass(frozen=True, slots=True)
class _File:
    """
    A data file that rows go from.

    :param entry: its entry in the log.
    :param rows: how many rows it has, hidden ones included.
    :param hidden: all of them that are hidden afterwards.
    """

    entry: Action
    rows: int
    hidden: set[int]


def _touched(location: str, version: int, places: Mapping[str, set[int]]) -> list[_File] | None:
    """Return the files that rows go from; ``None`` if the log does not have each once, with the rows still there."""
    if not places:
        return []
    named: dict[str, list[Action]] = {}
    for path, entry in log_state(DeltaLog(location), version, WITH_STATISTICS).files.items():
        named.setdefault(PurePosixPath(unquote(path)).name, []).append(entry)
    found = []
    for name, rows in places.items():
        entries = named.get(name, [])
        if len(entries) != 1:
            return None
        file = _with_hidden(Path(location), entries[0], rows)
        if file is None:
            return None
        found.append(file)
    return found


def _with_hidden(table: Path, entry: Action, rows: set[int]) -> _File | None:
    try:
        total = json.loads(entry.get("stats") or "{}").get("numRecords")
        before = few_hidden_rows(table, entry)
    except (ValueError, OSError):
        return None
    if not isinstance(total, int) or max(rows, default=0) >= total or before & rows:
        return None
    return _File(entry, total, before | rows)


class _NewFiles:
    """The files of a commit."""

    def __init__(self, table: Path) -> None:
        self._table = table
        self._written: list[Path] = []

    def of(self, replacement: Replacement, touched: list[_File], table: PlainTable) -> Iterator[Action]:
        """Write the files, and yield the entries of the log."""
        now, schema = milliseconds(), arrow_schema(table.fields)
        gone, come = replacement.removed.cast(schema), replacement.written.cast(schema)
        kept = {file.entry["path"]: file.hidden for file in touched if len(file.hidden) < file.rows}
        vectors: Mapping[str, Any] = {}
        if kept:
            written, vectors = write_hidden_rows(self._table, kept)
            self._written.append(written)
        for file in touched:
            yield _removal(file.entry, now)
        for file in touched:
            if vector := vectors.get(file.entry["path"]):
                yield _with_vector(file.entry, vector)
        if come.num_rows:
            footer, entry = self._file(f"part-00000-{uuid.uuid4()}-c000.snappy.parquet", come)
            statistics = statistics_of(footer, table.fields, table.indexed)
            yield {"add": {**entry, "modificationTime": now, "dataChange": True, "stats": statistics}}
        if table.has_feed and gone.num_rows:
            changes = [
                rows.append_column(_CHANGE_TYPE, pc.if_else(is_updated, *kinds))
                for rows, is_updated, kinds in zip((gone, come), replacement.is_updated, _CHANGE_TYPES, strict=True)
            ]
            (self._table / _CHANGE_FOLDER).mkdir(exist_ok=True)
            name = f"{_CHANGE_FOLDER}/cdc-00000-{uuid.uuid4()}.c000.snappy.parquet"
            _, entry = self._file(name, pa.concat_tables(changes))
            yield {"cdc": {**entry, "dataChange": False}}

    def _file(self, name: str, rows: pa.Table) -> tuple[pq.FileMetaData, Action]:
        path = self._table / name
        self._written.append(path)
        # Spark takes a schema of Arrow's for no more than a text.
        pq.write_table(rows, path, compression="snappy", store_schema=False, coerce_timestamps="us")
        return pq.read_metadata(path), {"path": name, "partitionValues": {}, "size": path.stat().st_size}

    def remove(self) -> None:
        """Remove the files, which are certainly not part of the table."""
        for path in self._written:
            with suppress(OSError):
                path.unlink()


def _removal(entry: Action, now: int) -> Action:
    vector = {"deletionVector": entry["deletionVector"]} if "deletionVector" in entry else {}
    return {
        "remove": {
            "path": entry["path"],
            "deletionTimestamp": now,
            "dataChange": True,
            "extendedFileMetadata": True,
            "partitionValues": {},
            "size": entry["size"],
            **vector,
        }
    }


def _with_vector(entry: Action, vector: Mapping[str, Any]) -> Action:
    # Of rows that are hidden, statistics are bounds, and no longer values that the file has.
    statistics = {**json.loads(entry["stats"]), "tightBounds": False}
    return {
        "add": {
            **entry,
            "partitionValues": {},
            "dataChange": True,
            "stats": json.dumps(statistics),
            "deletionVector": vector,
        }
    }


def _info(replacement: Replacement, version: int, transaction: AppendTransaction) -> Action:
    metrics = {
        "numTargetRowsDeleted": str(replacement.removed.num_rows),
        "numTargetRowsInserted": str(replacement.written.num_rows),
    }
    return {
        "commitInfo": {
            "timestamp": milliseconds(),
            "operation": "MERGE",
            "operationParameters": {},
            "readVersion": version,
            "isolationLevel": "Serializable",
            "isBlindAppend": False,
            "operationMetrics": metrics,
            "userMetadata": transaction.user_metadata,
            "engineInfo": ENGINE,
            "txnId": str(uuid.uuid4()),
        }
    }


def _commit(location: str, version: int, actions: list[Action]) -> bool:
    """Write a commit, unless there is one of this version."""
    try:
        write_commit(location, version, actions)
    except CommitFailedError:
        return False
    return True
