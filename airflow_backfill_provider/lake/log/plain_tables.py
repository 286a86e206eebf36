"""
Tells whether data files can be added to a Delta table without Delta's own writer.

That writer also checks constraints, computes columns, maps column names, gives rows ids, and more. A table that asks
for anything of this is not plain. What this module does not know is taken for such a thing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deltalake import DeltaTable

from airflow_backfill_provider.core.scan.decimals import is_decimal, is_rounded
from airflow_backfill_provider.lake.log.schemas import type_name

_FEATURES = frozenset(
    {
        *("appendOnly", "changeDataFeed", "checkConstraints", "deletionVectors", "invariants", "timestampNtz"),
        *("clustering", "domainMetadata"),
    }
)
"""
The table features that ask nothing of new data files if the table's properties and columns don't.

An append needs no change data: readers of the change feed take all rows of its files as inserted.
"""

_NOT_FOR_DELTALAKE = frozenset({"clustering", "domainMetadata"})
"""The features of tables to which deltalake commits no files, although they ask nothing of these but statistics."""

_NEWEST_WITHOUT_FEATURES = 4
"""The newest protocol of writers for which the properties and the columns show everything that it asks for."""

_PROPERTIES = frozenset(
    {
        "delta.appendOnly",
        "delta.checkpointInterval",
        "delta.dataSkippingNumIndexedCols",
        "delta.deletedFileRetentionDuration",
        "delta.enableChangeDataFeed",
        "delta.enableDeletionVectors",
        "delta.enableExpiredLogCleanup",
        "delta.logRetentionDuration",
        "delta.minReaderVersion",
        "delta.minWriterVersion",
        "delta.setTransactionRetentionDuration",
        "delta.targetFileSize",
    }
)
"""The properties of Delta that ask nothing of new data files, or only statistics, which :class:`PlainTable` has."""

_DEFAULT_INDEXED = 32
_DEFAULT_CHECKPOINT_INTERVAL = 10

_TYPES = frozenset(
    {
        *("binary", "boolean", "byte", "date", "double", "float", "integer", "long", "short", "string"),
        *("timestamp", "timestamp_ntz"),
    }
)


@dataclass(frozen=True, slots=True)
class PlainTable:
    """
    A table to which data files can be added.

    :param table_id: its id, which another table at the same location does not have.
    :param fields: the columns, as Delta's schema has them.
    :param indexed: how many columns have statistics, with nested fields counted; negative for all.
    :param checkpoint_interval: the number of versions from one checkpoint to the next.
    :param for_deltalake: whether deltalake commits files to it; otherwise this package writes the commit itself.
    """

    table_id: str
    fields: Sequence[Mapping[str, Any]]
    indexed: int
    checkpoint_interval: int
    for_deltalake: bool = True

    def takes(self, fields: Sequence[Mapping[str, Any]]) -> bool:
        """Return whether rows have exactly the table's columns in their order; ``fields`` as Delta's schema has it."""
        return [*map(_column, fields)] == [*map(_column, self.fields)]


def plain_table(table: DeltaTable) -> PlainTable | None:
    """Return what adding files to an open table needs; ``None`` if the table is not plain."""
    protocol, metadata = table.protocol(), table.metadata()
    features = protocol.writer_features
    if features is None:
        is_known = protocol.min_writer_version <= _NEWEST_WITHOUT_FEATURES
    else:
        is_known = _FEATURES.issuperset(features)
    properties = {name for name in metadata.configuration if name.startswith("delta.")}
    if not is_known or not _PROPERTIES.issuperset(properties) or metadata.partition_columns:
        return None
    fields = json.loads(table.schema().to_json())["fields"]
    for_deltalake = _NOT_FOR_DELTALAKE.isdisjoint(features or ())
    if not all(map(_is_plain, fields)) or not (for_deltalake or all(map(_has_bounds, fields))):
        return None
    return PlainTable(
        table_id=str(metadata.id),
        fields=fields,
        indexed=int(metadata.configuration.get("delta.dataSkippingNumIndexedCols", _DEFAULT_INDEXED)),
        checkpoint_interval=int(metadata.configuration.get("delta.checkpointInterval", _DEFAULT_CHECKPOINT_INTERVAL)),
        for_deltalake=for_deltalake,
    )


def _has_bounds(field: Mapping[str, Any]) -> bool:
    """
    Return whether files always get bounds of a column; see :mod:`.written_statistics`.

    A clustered table must have those of its clustering columns, and deltalake does not tell which these are. By nested
    columns and by arrays, no view is clustered.
    """
    kind = str(field["type"])
    return not is_rounded(kind) if is_decimal(kind) else kind not in {"float", "double"}


def _is_plain(field: Mapping[str, Any]) -> bool:
    """Return whether a column or a nested field may have any value of its type."""
    return bool(field["nullable"]) and {"comment"}.issuperset(field["metadata"]) and _is_plain_type(field["type"])


def _is_plain_type(kind: Any) -> bool:
    if isinstance(kind, str):
        return kind in _TYPES or is_decimal(kind)
    match kind["type"]:
        case "struct":
            return all(map(_is_plain, kind["fields"]))
        case "array":
            return bool(kind["containsNull"]) and _is_plain_type(kind["elementType"])
        case "map":
            return (
                bool(kind["valueContainsNull"])
                and _is_plain_type(kind["keyType"])
                and _is_plain_type(kind["valueType"])
            )
    return False


def _column(field: Mapping[str, Any]) -> tuple[str, str]:
    return field["name"], type_name(field["type"])
