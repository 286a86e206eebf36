"""
How many rows a commit of a Delta table changed, about; decides how many commits one epoch replays.

Each writer names its metrics differently, and may leave them out or count something else. They are only a hint, and so
is every count here: the replay ends whatever they say (:mod:`~airflow_backfill_provider.core.epoch.replay`). A commit
with files of changes is counted by these, because an epoch reads nothing else of it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as arrow_fs
from deltalake.exceptions import DeltaError

from airflow_backfill_provider.lake.log.delta_log import DeltaLog, changes_rows
from airflow_backfill_provider.lake.store.storage import data_file_errors
from airflow_backfill_provider.lake.stored_parquet import StoredParquet

_KIND = "_change_type"

Action = Mapping[str, Mapping[str, Any]]

_CHANGED_ROWS = frozenset(
    {"numupdatedrows", "numdeletedrows", "numtargetrowsinserted", "numtargetrowsupdated", "numtargetrowsdeleted"}
)
_WRITTEN_ROWS = frozenset({"numoutputrows", "numaddedrows"})
"""These also count rows that were only moved to another file, so they matter if a commit has none of the others."""


def changed_rows(actions: Sequence[Action], storage: arrow_fs.FileSystem) -> int:
    """
    Return about how many rows a commit changed.

    :param actions: the commit's entries.
    :param storage: the table's files.
    """
    changes = [content for action in actions for kind, content in action.items() if changes_rows(kind, content)]
    if not changes:
        return 0
    for found in (_in_change_files(actions, storage), _by_metrics(actions)):
        if found is not None:
            return found
    return sum(_count(_statistics(content).get("numRecords")) or 0 for content in changes)


def kinds_of_changes(log: DeltaLog, file: Mapping[str, Any]) -> Counter[str]:
    """
    Return how many rows of each kind a file of changes has, such as ``update_postimage``.

    :param file: its entry in the log.
    :raises DataFileError: if it is damaged or gone.
    """
    path = unquote(str(file["path"]))
    with data_file_errors(log.storage, log.location, path):
        return Counter(_kinds_in(log.storage, path).to_pylist())


def _kinds_in(storage: arrow_fs.FileSystem, path: str) -> pa.ChunkedArray:
    with storage.open_input_file(path) as file:
        return StoredParquet(file).read([_KIND])[_KIND]


def _in_change_files(actions: Sequence[Action], storage: arrow_fs.FileSystem) -> int | None:
    """
    Return how many rows a commit's change files have, by the largest one and the sizes of the others.

    :returns: ``None`` if it has none, or if that file cannot be read; the epoch that reads it says why.
    """
    files = [action["cdc"] for action in actions if "cdc" in action]
    largest = max(files, key=lambda file: _count(file.get("size")) or 0, default=None)
    if largest is None:
        return None
    try:
        kinds = _kinds_in(storage, unquote(str(largest["path"])))
    except (OSError, KeyError, DeltaError, pa.ArrowException):
        return None
    # An updated row is there twice, before and after.
    rows = len(kinds) - (pc.sum(pc.equal(kinds, "update_preimage")).as_py() or 0)
    size = _count(largest.get("size"))
    if not size:
        return rows * len(files)
    return round(rows * sum(_count(file.get("size")) or 0 for file in files) / size)


def _by_metrics(actions: Sequence[Action]) -> int | None:
    """Return how many rows a commit says that it changed; ``None`` if it does not say so."""
    info: Mapping[str, Any] = next((action["commitInfo"] for action in actions if "commitInfo" in action), {})
    metrics = info.get("operationMetrics")
    if not isinstance(metrics, Mapping):
        return None
    # Spark writes numUpdatedRows, and deltalake num_updated_rows.
    counts = {str(name).replace("_", "").lower(): _count(value) for name, value in metrics.items()}
    for names in (_CHANGED_ROWS, _WRITTEN_ROWS):
        told = [count for name, count in counts.items() if name in names and count is not None]
        if told:
            return sum(told)
    return None


def _count(value: object) -> int | None:
    """Return a count that a foreign writer wrote, as a number or as a text; ``None`` if it is none."""
    return int(str(value)) if str(value).isascii() and str(value).isdigit() else None


def _statistics(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    try:
        found = json.loads(entry.get("stats") or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
