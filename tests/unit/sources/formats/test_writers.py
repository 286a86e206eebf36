"""The schemas of writers by their ids."""

from __future__ import annotations

from airflow_backfill_provider.sources.formats.registry import RegisteredSchema
from airflow_backfill_provider.sources.formats.writers import writer_schemas


class Registry:
    """A registry of two schemas."""

    def schema(self, schema_id):
        return {
            1: RegisteredSchema(1, "AVRO", '"int"'),
            2: RegisteredSchema(2, "PROTOBUF", "message"),
        }.get(schema_id)


def test_what_is_unknown_and_what_is_no_avro_is_left_out():
    assert writer_schemas(Registry(), [3, 2, 1, 1]) == {1: '"int"'}
