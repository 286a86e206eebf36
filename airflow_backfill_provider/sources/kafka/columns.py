"""The columns of a topic's records, and their types as Delta writes them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cached_property

from airflow_backfill_provider.sources.kafka.definition import KafkaUpstream
from airflow_backfill_provider.sources.shared.formats.registry import SchemaRegistry, schema_registry
from airflow_backfill_provider.sources.shared.formats.resolved import ResolvedFormat, from_json, resolved, to_json

KEY, VALUE = "key", "value"
"""The columns with what producers wrote."""

TIMESTAMP = "timestamp"
"""The column with the time that the producer or the broker wrote."""

_HEADERS = {
    "type": "array",
    "elementType": {
        "type": "struct",
        "fields": [
            {"name": "key", "type": "string", "nullable": True, "metadata": {}},
            {"name": "value", "type": "binary", "nullable": True, "metadata": {}},
        ],
    },
    "containsNull": True,
}

_FIXED = {
    "headers": json.dumps(_HEADERS),
    "topic": "string",
    "partition": "integer",
    "offset": "long",
    TIMESTAMP: "timestamp",
}

NAMES = (KEY, VALUE, *_FIXED)
"""The columns, in order."""


class RecordFormats:
    """
    The formats of keys and values, with all that decoding needs.

    :param upstream: the definition.
    :param pinned: what a job pinned when it was created; empty before. Then files and registries are read on demand.
    """

    def __init__(self, upstream: KafkaUpstream, pinned: Mapping[str, str]) -> None:
        self._upstream = upstream
        self._pinned = pinned
        self._registries: dict[str, SchemaRegistry] = {}

    def registry(self, connection_id: str) -> SchemaRegistry:
        """
        Return the registry of a connection, always the same one.

        An epoch decodes its records for the view and for the dead letters. Both must know the same schemas, or a record
        could be in neither.

        :raises InvalidJobError: if there is no such connection, or it names no registry.
        """
        if connection_id not in self._registries:
            self._registries[connection_id] = schema_registry(connection_id)
        return self._registries[connection_id]

    @cached_property
    def value(self) -> ResolvedFormat:
        """The format of values."""
        if VALUE in self._pinned:
            return from_json(self._pinned[VALUE])
        return resolved(self._upstream.value, f"{self._upstream.topic}-value")

    @cached_property
    def key(self) -> ResolvedFormat:
        """The format of keys."""
        if KEY in self._pinned:
            return from_json(self._pinned[KEY])
        return resolved(self._upstream.record_key, f"{self._upstream.topic}-key")

    @property
    def pinned(self) -> dict[str, str]:
        """Both, to be pinned."""
        return {KEY: to_json(self.key), VALUE: to_json(self.value)}


class RecordTypes(Mapping[str, str]):
    """Column → its type; those of keys and values are asked for on demand, because a registry may have to answer."""

    def __init__(self, formats: RecordFormats) -> None:
        self._formats = formats

    def __getitem__(self, name: str) -> str:
        if name == KEY:
            return self._formats.key.delta_type
        if name == VALUE:
            return self._formats.value.delta_type
        return _FIXED[name]

    def __iter__(self) -> Iterator[str]:
        return iter(NAMES)

    def __len__(self) -> int:
        return len(NAMES)
