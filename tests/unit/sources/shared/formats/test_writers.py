"""The schemas of writers by their ids."""

from __future__ import annotations

from airflow_backfill_provider.sources.shared.formats.registry import RegisteredSchema
from airflow_backfill_provider.sources.shared.formats.writers import avro_writers, protobuf_writers
from tests.protobuf_schemas import field, file_of, message


class Registry:
    """A registry of two schemas."""

    def schema(self, schema_id):
        return {
            1: RegisteredSchema(1, "AVRO", '"int"'),
            2: RegisteredSchema(2, "PROTOBUF", "message"),
        }.get(schema_id)

    def protobuf(self, schema_id):
        file = file_of(message("Order", field("id", "int64")))
        return file.SerializeToString() if schema_id == 2 else None


def test_what_is_unknown_and_what_is_no_avro_is_left_out():
    assert avro_writers(Registry(), [3, 2, 1, 1]) == {1: '"int"'}


def test_what_is_unknown_and_what_is_no_protobuf_is_left_out():
    assert protobuf_writers(Registry(), [3, 2, 1, 1]) == {2: {(0,): "shop.Order"}}
