"""The formats of records that a job's definition may name, each with what it needs to be read."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StrictStr, field_validator, model_validator

from airflow_backfill_provider.core.errors import InvalidJobError

Name = Annotated[StrictStr, Field(min_length=1)]


class RawFormat(BaseModel):
    """The bytes as they are, in a column of type BINARY."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal["raw"] = "raw"


class TextFormat(BaseModel):
    """Text in UTF-8, in a column of type STRING."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal["text"] = "text"


class JsonFormat(BaseModel):
    """
    A JSON object, in a column of type STRUCT.

    :param schema_: the fields to read and their types as SQL writes them, such as ``id BIGINT, price DECIMAL(12,2)``;
        other fields of the object are ignored.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", validate_by_name=True, validate_by_alias=True, serialize_by_alias=True
    )

    format: Literal["json"] = "json"
    schema_: Annotated[StrictStr, Field(alias="schema")]

    @field_validator("schema_")
    @classmethod
    def _names_columns(cls, value: str) -> str:
        # Parsing SQL takes a library that a scheduler does not load for every DAG.
        from airflow_backfill_provider.sources.shared.formats.columns_text import parse_columns

        parse_columns(value, "schema")
        return value


class AvroFormat(BaseModel):
    """
    A value that Avro encoded.

    Without a registry, all records were written with the schema of the file. With one, each record begins with the id
    of its own schema, in the framing of Confluent's serializers.

    :param schema_file: a file (.avsc) with the schema to read with.
    :param registry: id of an Airflow connection of the type ``http`` to a schema registry.
    :param subject: the subject of the registry whose latest version is the schema to read with; by default that of the
        topic.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal["avro"] = "avro"
    schema_file: Name | None = None
    registry: Name | None = None
    subject: Name | None = None

    @model_validator(mode="after")
    def _has_a_schema(self) -> Self:
        if self.schema_file is None and self.registry is None:
            raise InvalidJobError(
                "the format avro needs schema_file, a file with the schema of all records, or registry, the id of an "
                "Airflow connection to the schema registry whose ids the records begin with"
            )
        if self.subject is not None and self.registry is None:
            raise InvalidJobError("subject names a schema of a registry, so it needs registry; add it, or leave it out")
        if self.subject is not None and self.schema_file is not None:
            raise InvalidJobError(
                "subject and schema_file both give the schema to read with; keep one, and registry beside it"
            )
        return self


class ProtobufFormat(BaseModel):
    """
    A message of Protobuf, in a column of type STRUCT.

    Without a registry, each record is one message. With one, each begins with the id of the schema that it was written
    with and the message's place there, in the framing of Confluent's serializers.

    :param descriptor_file: a file with a set of descriptors, which ``protoc --include_imports --descriptor_set_out``
        writes.
    :param message: the message's full name, such as ``shop.Order``.
    :param registry: id of an Airflow connection of the type ``http`` to a schema registry.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal["protobuf"] = "protobuf"
    descriptor_file: Name
    message: Name
    registry: Name | None = None


RecordFormat = Annotated[
    RawFormat | TextFormat | JsonFormat | AvroFormat | ProtobufFormat, Field(discriminator="format")
]
"""Any format, by the value of its field ``format``."""

DEFAULT_FORMAT = RawFormat()
"""The format of a record of which the definition says nothing."""
