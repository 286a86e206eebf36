"""
A Delta table of the files of one version of another table, with the number of each file as a partition column.

Spark reads a Delta table as a whole, or by statistics. It does not read chosen files: a condition on their names is
checked after all files are read. Of this table it reads single files, by their numbers, and does all the rest as for
the original: deletion vectors, mapped columns, partition values, widened types. The table has a log and no files of
its own, like a shallow clone.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Collection, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from airflow_backfill_provider.core.errors import TableLogError
from airflow_backfill_provider.core.location import is_local, parent
from airflow_backfill_provider.core.scan.columns import own_columns
from airflow_backfill_provider.lake.files.deletion_vectors import vector_file
from airflow_backfill_provider.lake.files.own_files import lies_outside
from airflow_backfill_provider.lake.files.small_files import write_file
from airflow_backfill_provider.lake.files.stored_files import stored_files
from airflow_backfill_provider.lake.log.log_state import Action, LogState, partition_values
from airflow_backfill_provider.lake.log.schemas import char_length
from airflow_backfill_provider.lake.store.storage import storage_errors

_MAPPING = "delta.columnMapping."
_PHYSICAL_NAME = f"{_MAPPING}physicalName"
_MODE, _MOST = f"{_MAPPING}mode", f"{_MAPPING}maxColumnId"
_TABLE_FEATURES = 3
"""The first version of the protocol for readers that lists features by name."""
_MAPPED_COLUMNS = 2
"""The version of the protocol for readers that added mapped columns."""
_OF_CATALOGS = {"catalogManaged", "catalogOwned-preview"}
"""Features of a log that a catalog commits to."""
_OF_WRITERS = ("CURRENT_DEFAULT", "delta.generationExpression", "delta.identity.", "delta.invariants")


def write_numbered_log(
    location: str,
    table: str,
    state: LogState,
    paths: Sequence[str],
    storage_options: Mapping[str, str],
    first: int = 0,
) -> None:
    """
    Write the log; two writers at once write the same bytes.

    :param location: the folder of the new table; the number is its last column.
    :param table: the canonical location of the original table.
    :param state: the version of the original table.
    :param paths: the files in the order of their numbers, as the log has their paths.
    :param first: the number of the first one.
    :raises TableLogError: if the log has other files than these.
    """
    if {*paths} != state.files.keys() or not (state.protocol and state.metadata):
        raise TableLogError(
            f"the log of the Delta table at {table} has {len(state.files)} files, and deltalake reads {len(paths)} "
            "there; restore the log, or rebuild the job with strategy arrangement or no_shuffle"
        )
    fields = json.loads(state.metadata["schemaString"])["fields"]
    padded = {field.get("metadata", {}).get(_PHYSICAL_NAME, field["name"]) for field in fields if char_length(field)}
    number = own_columns(field["name"] for field in fields).named("file")
    actions: list[dict[str, Action]] = [
        {"protocol": _protocol(state.protocol)},
        {"metaData": _metadata(state.metadata, number, location)},
        *(
            {"add": _file(state.files[path], table, padded, {number: str(index)})}
            for index, path in enumerate(paths, first)
        ),
    ]
    written = "".join(f"{json.dumps(action, separators=(',', ':'))}\n" for action in actions)
    with storage_errors(location):
        # A local folder has to exist, and this one may not.
        folder = parent(location)
        storage = stored_files(folder, storage_options)
        write_file(storage, f"{location[len(folder) + 1 :]}/_delta_log/{0:020d}.json", written.encode("utf-8"))


def _protocol(of_table: Action) -> Action:
    """Return what a reader needs to know; writers have nothing to do with this table."""
    if of_table["minReaderVersion"] >= _TABLE_FEATURES:
        features = {*of_table.get("readerFeatures", ())} - _OF_CATALOGS
    else:
        features = {"columnMapping"} if of_table["minReaderVersion"] == _MAPPED_COLUMNS else set()
    # Without deletion vectors, Delta does not tell the index of a row in its file.
    named = sorted({*features, "deletionVectors"})
    return {
        "minReaderVersion": _TABLE_FEATURES,
        "minWriterVersion": 7,
        "readerFeatures": named,
        "writerFeatures": named,
    }


def _metadata(of_table: Action, number: str, location: str) -> Action:
    schema = _for_readers(json.loads(of_table["schemaString"]))
    properties = dict(of_table.get("configuration") or {})
    mapping = {name: value for name, value in properties.items() if name.startswith(_MAPPING)}
    added: dict[str, Any] = {"name": number, "type": "integer", "nullable": True, "metadata": {}}
    if mapping.get(_MODE, "none") != "none":
        most = int(mapping.get(_MOST, 0)) + 1
        mapping[_MOST] = str(most)
        added["metadata"] = {f"{_MAPPING}id": most, _PHYSICAL_NAME: number}
    schema["fields"].append(added)
    return {
        # The same in each attempt.
        "id": str(uuid.uuid5(uuid.NAMESPACE_URL, location)),
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps(schema, separators=(",", ":")),
        "partitionColumns": [*(of_table.get("partitionColumns") or ()), number],
        "configuration": mapping,
        "createdTime": 0,
    }


def _for_readers(value: Any) -> Any:
    """Return a schema without what only writers need, such as defaults, because the protocol lacks their features."""
    if isinstance(value, list):
        return [_for_readers(part) for part in value]
    if not isinstance(value, dict):
        return value
    kept = {name: _for_readers(part) for name, part in value.items()}
    if "metadata" in kept:
        # NOT NULL is a feature of writers, too.
        metadata = {name: part for name, part in kept["metadata"].items() if not name.startswith(_OF_WRITERS)}
        kept |= {"nullable": True, "metadata": metadata}
    return kept


def _file(entry: Action, table: str, padded: Collection[str], number: Mapping[str, str]) -> Action:
    # Of a column of type CHAR, Delta's scan pads the empty text, so that it is one also in the original.
    texts = {
        name: "" for name, text in dict(entry.get("partitionValues") or {}).items() if text == "" and name in padded
    }
    added = {
        **entry,
        "path": _absolute(entry["path"], table),
        "partitionValues": {**partition_values(entry), **texts, **number},
        "dataChange": False,
    }
    if vector := entry.get("deletionVector"):
        added["deletionVector"] = _absolute_vector(vector, table)
    return added


def _absolute(path: str, table: str) -> str:
    """Return the URI of a file, whose path in the log is a URI that may be relative to the table."""
    return path if lies_outside(path) else f"{_root(table)}/{path}"


def _root(table: str) -> str:
    if is_local(table):
        return f"file:{quote(table)}"
    scheme, _, rest = table.partition("://")
    return f"{scheme}://{quote(rest)}"


def _absolute_vector(vector: Action, table: str) -> Action:
    """Return the description of a deletion vector with the URI of its file, unless it is in the log itself."""
    file = vector_file(vector)
    if file is None:
        return vector
    return {**vector, "storageType": "p", "pathOrInlineDv": f"{_root(table)}/{quote(file)}"}
