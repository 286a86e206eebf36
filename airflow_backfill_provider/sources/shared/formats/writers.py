"""The schemas that records were written with, by the ids that the records begin with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from airflow_backfill_provider.sources.shared.formats.protobuf_types import places_of_messages
from airflow_backfill_provider.sources.shared.formats.registry import AVRO, SchemaRegistry


def avro_writers(registry: SchemaRegistry, schema_ids: Iterable[int]) -> Mapping[int, str]:
    """
    Return the texts of schemas by their ids.

    Ids that the registry does not know are left out, and those of other languages than Avro, because records with them
    are unreadable.

    :raises RegistryUnavailableError: if the registry does not answer: that says nothing about a record.
    :raises RegistryRefusedError: if the registry refuses a request.
    """
    found = ((schema_id, registry.schema(schema_id)) for schema_id in sorted(set(schema_ids)))
    return {schema_id: schema.text for schema_id, schema in found if schema is not None and schema.kind == AVRO}


def protobuf_writers(
    registry: SchemaRegistry, schema_ids: Iterable[int]
) -> Mapping[int, Mapping[tuple[int, ...], str]]:
    """
    Return the full names of the schemas' messages by where they stand, by the schemas' ids.

    Ids that the registry does not know are left out, and those of other languages than Protobuf.

    :raises RegistryUnavailableError: if the registry does not answer: that says nothing about a record.
    :raises RegistryRefusedError: if the registry refuses a request.
    """
    found = ((schema_id, registry.protobuf(schema_id)) for schema_id in sorted(set(schema_ids)))
    return {schema_id: places_of_messages(file) for schema_id, file in found if file is not None}
