"""
Formats that depend on nothing outside any more: a job pins them when it is created.

A file may be edited and a subject may get a new version. The job goes on reading records with the schema that its
view's columns were made of.
"""

from __future__ import annotations

import base64
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Base64Bytes, BaseModel, ConfigDict, Field, TypeAdapter

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.sources.shared.formats.avro_types import avro_column_type
from airflow_backfill_provider.sources.shared.formats.column_types import type_text
from airflow_backfill_provider.sources.shared.formats.columns_text import parse_columns
from airflow_backfill_provider.sources.shared.formats.definition import (
    AvroFormat,
    JsonFormat,
    ProtobufFormat,
    RawFormat,
    RecordFormat,
    TextFormat,
)
from airflow_backfill_provider.sources.shared.formats.protobuf_types import protobuf_column_type
from airflow_backfill_provider.sources.shared.formats.registry import AVRO, SchemaRegistry, schema_registry


class ResolvedRaw(BaseModel):
    """The bytes as they are."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal["raw"] = "raw"
    delta_type: Literal["binary"] = "binary"


class ResolvedText(BaseModel):
    """Text in UTF-8."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal["text"] = "text"
    delta_type: Literal["string"] = "string"


class ResolvedJson(BaseModel):
    """
    A JSON object.

    :param delta_type: the type of the column, as Delta writes it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal["json"] = "json"
    delta_type: str


class ResolvedAvro(BaseModel):
    """
    A value that Avro encoded.

    :param delta_type: the type of the column, as Delta writes it.
    :param reader_schema: the text of the schema to read with.
    :param registry: the connection to the registry that has the schemas that records were written with; ``None`` if all
        were written with the schema to read with.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal["avro"] = "avro"
    delta_type: str
    reader_schema: str
    registry: str | None = None


class ResolvedProtobuf(BaseModel):
    """
    A message of Protobuf.

    :param delta_type: the type of the column, as Delta writes it.
    :param descriptors: the set of descriptors to read with, in Base64.
    :param message: the message's full name.
    :param registry: the connection to the registry that has the schemas that records were written with; ``None`` if
        records are bare messages.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal["protobuf"] = "protobuf"
    delta_type: str
    descriptors: Base64Bytes
    message: str
    registry: str | None = None


ResolvedFormat = Annotated[
    ResolvedRaw | ResolvedText | ResolvedJson | ResolvedAvro | ResolvedProtobuf, Field(discriminator="format")
]
"""Any resolved format, by the value of its field ``format``."""

LONGEST_FILE = 16 << 20
"""The longest file of a schema, in bytes."""

_FORMATS: TypeAdapter[ResolvedFormat] = TypeAdapter(ResolvedFormat)


def resolved(
    record_format: RecordFormat,
    default_subject: str | None = None,
    open_registry: Callable[[str], SchemaRegistry] = schema_registry,
) -> ResolvedFormat:
    """
    Return a format with all that decoding needs.

    :param default_subject: the subject of a registry that records have if the format names none, such as
        ``orders-value``; ``None`` if the format has to name it.
    :param open_registry: returns the registry of a connection.
    :raises InvalidJobError: if a file cannot be used, or Spark has no type for a schema.
    :raises RegistryUnavailableError: if a registry does not answer.
    :raises RegistryRefusedError: if a registry refuses a request, or lacks the subject.
    """
    match record_format:
        case RawFormat():
            return ResolvedRaw()
        case TextFormat():
            return ResolvedText()
        case JsonFormat():
            return ResolvedJson(delta_type=type_text(parse_columns(record_format.schema_, "schema")))
        case AvroFormat():
            return _avro(record_format, default_subject, open_registry)
        case ProtobufFormat():
            return _protobuf(record_format)


def to_json(found: ResolvedFormat) -> str:
    """Return a resolved format as JSON."""
    return _FORMATS.dump_json(found).decode()


def from_json(text: str) -> ResolvedFormat:
    """Return the resolved format that was written as JSON."""
    return _FORMATS.validate_json(text)


def _avro(
    record_format: AvroFormat, default_subject: str | None, open_registry: Callable[[str], SchemaRegistry]
) -> ResolvedAvro:
    if record_format.schema_file is not None:
        where = f"schema_file {record_format.schema_file}"
        text = _text_of(record_format.schema_file, where)
    else:
        subject = record_format.subject or default_subject
        if record_format.registry is None or subject is None:
            raise InvalidJobError(
                "the format avro needs subject, the registry's subject of the records, or schema_file"
            )
        where = f"subject {subject}"
        found = open_registry(record_format.registry).latest(subject)
        if found.kind != AVRO:
            raise InvalidJobError(
                f"{where} is a schema of {found.kind}, but the format is avro; choose the other format"
            )
        text = found.text
    return ResolvedAvro(
        delta_type=type_text(avro_column_type(text, where)), reader_schema=text, registry=record_format.registry
    )


def _protobuf(record_format: ProtobufFormat) -> ResolvedProtobuf:
    where = f"descriptor_file {record_format.descriptor_file}"
    descriptors = _bytes_of(record_format.descriptor_file, where)
    kind = protobuf_column_type(descriptors, record_format.message, where)
    return ResolvedProtobuf(
        delta_type=type_text(kind),
        descriptors=base64.b64encode(descriptors),
        message=record_format.message,
        registry=record_format.registry,
    )


def _text_of(path: str, where: str) -> str:
    try:
        return _bytes_of(path, where).decode()
    except UnicodeDecodeError:
        raise InvalidJobError(f"{where} cannot be read (it is no text in UTF-8); give a file on this machine") from None


def _bytes_of(path: str, where: str) -> bytes:
    try:
        content = _content(Path(path))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "its name is no path"
        raise InvalidJobError(f"{where} cannot be read ({reason}); give a file on this machine") from None
    if content is None:
        raise InvalidJobError(f"{where} is no file, or longer than {LONGEST_FILE >> 20} MiB; give the schema alone")
    return content


def _content(file: Path) -> bytes | None:
    """Return what a file holds; ``None`` if it is too long, or a device or a pipe, which may have no end."""
    if not file.is_dir() and not stat.S_ISREG(file.stat().st_mode):
        return None
    with file.open("rb") as opened:
        content = opened.read(LONGEST_FILE + 1)
    return content if len(content) <= LONGEST_FILE else None
