"""The table of a view as it is now, as far as other columns of it concern that: its columns, and what hangs on them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from airflow_backfill_provider.lake.log.schemas import TableSchema, plain_type
from airflow_backfill_provider.lake.store.bucket_options import options_of
from airflow_backfill_provider.lake.store.storage import storage_errors
from airflow_backfill_provider.lake.tables.view_feed import CHANGE_DATA_FEED

COLUMN_MAPPING = "delta.columnMapping.mode"

CHARACTERS_TO_MAP = frozenset(" ,;{}()\n\t=")
"""Characters that Delta allows in names of columns only with column mapping."""

_PARTS_OF_TYPES = ("type", "fields", "elementType", "keyType", "valueType")
"""Where a type has others inside, as Delta writes it."""

CLUSTERED = "clustering"
"""The feature of a table that is clustered, or was."""

_CONSTRAINT = "delta.constraints."

_OF_COLUMNS = {
    "CURRENT_DEFAULT": "a default",
    "delta.generationExpression": "an expression that generates it",
    "delta.identity.start": "generated identities",
    "delta.invariants": "an invariant",
}
"""What a table may have of a column, by the name in the column's metadata."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewTable:
    """
    The table of a view.

    :param types: its columns with their types, hidden ones included; as a query's types are written.
    :param added: what was added to columns since the table was made: column → words.
    :param properties: its properties.
    :param features: the features that its protocol names.
    """

    types: Mapping[str, str]
    added: Mapping[str, str]
    properties: Mapping[str, str]
    features: frozenset[str]

    @property
    def is_clustered(self) -> bool:
        """Whether Delta clusters its files, or did."""
        return CLUSTERED in self.features

    @property
    def has_feed(self) -> bool:
        """Whether it records its changes."""
        return self.properties.get(CHANGE_DATA_FEED, "false").lower() == "true"

    @property
    def maps_columns(self) -> bool:
        """Whether columns have other names in the data files."""
        return self.properties.get(COLUMN_MAPPING, "none").lower() != "none"

    @property
    def constraints(self) -> Mapping[str, str]:
        """The constraints of the table's rows, by their names."""
        return {
            name[len(_CONSTRAINT) :]: text
            for name, text in self.properties.items()
            if name.lower().startswith(_CONSTRAINT)
        }


def view_table(path: str, storage_options: Mapping[str, str] | None = None) -> ViewTable | None:
    """
    Return the table of a view; ``None`` if there is none.

    :param path: canonical location.
    """
    try:
        with storage_errors(path):
            table = DeltaTable(path, storage_options=options_of(path, storage_options))
    except TableNotFoundError:
        return None
    schema = table.schema().to_json()
    return ViewTable(
        types={name: plain_type(kind) for name, kind in TableSchema.of(schema).types.items()},
        added=dict(_added(json.loads(schema)["fields"])),
        properties=table.metadata().configuration,
        features=frozenset(table.protocol().writer_features or ()),
    )


def names_to_map(types: Mapping[str, str]) -> list[str]:
    """
    Return those names of columns, and of fields inside of them, that a table can have only with column mapping.

    :param types: the columns and their types, as Delta writes them; nested types as JSON.
    """
    columns = [
        {"name": name, "type": json.loads(kind) if kind.startswith("{") else kind} for name, kind in types.items()
    ]
    return [name for name in _names_in(columns) if CHARACTERS_TO_MAP & set(name)]


def _names_in(found: Any) -> Iterator[str]:
    """Yield the names of columns, and of fields inside of them; metadata may have names, too, and is left out."""
    if isinstance(found, list):
        for part in found:
            yield from _names_in(part)
    elif isinstance(found, dict):
        if "name" in found:
            yield found["name"]
        for part in _PARTS_OF_TYPES:
            yield from _names_in(found.get(part))


def _added(fields: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield the columns to which something was added; a view's table is made without."""
    for found in fields:
        metadata = found.get("metadata", {})
        if not found.get("nullable", True):
            yield found["name"], "NOT NULL"
        for name, words in _OF_COLUMNS.items():
            if name in metadata:
                yield found["name"], words
