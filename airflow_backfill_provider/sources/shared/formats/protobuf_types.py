"""
The types of columns that messages of Protobuf become, from a set of descriptors as ``protoc`` writes it.

The set stands for the ``.proto`` files, so nothing has to be compiled where records are read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.sources.shared.formats.column_types import (
    ColumnType,
    array_type,
    decimal_type,
    map_type,
    require_distinct,
    struct_type,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from google.protobuf.descriptor import Descriptor, FieldDescriptor
    from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorSet

_UNSIGNED_DIGITS = 20
"""The digits of the greatest unsigned number of 64 bits."""

_PROTOC = "protoc --include_imports --descriptor_set_out=…"


def protobuf_column_type(descriptors: bytes, message: str, where: str) -> ColumnType:
    """
    Return the type of the values of a message.

    :param descriptors: a set of descriptors, with everything that it imports.
    :param message: the message's full name, such as ``shop.Order``.
    :param where: where the set is, for messages.
    :raises InvalidJobError: if it is no such set or lacks the message, or Delta has no type for a field.
    """
    return _struct(message_of(descriptors, message, where), (), where)


def message_of(descriptors: bytes, message: str, where: str) -> Descriptor:
    """
    Return a message of a set of descriptors.

    :raises InvalidJobError: if it is no such set, or lacks the message.
    """
    # Most jobs have no such records, and the library comes with Spark's client.
    from google.protobuf.descriptor_pb2 import FileDescriptorSet
    from google.protobuf.descriptor_pool import DescriptorPool
    from google.protobuf.message import DecodeError

    pool = DescriptorPool()
    try:
        found = FileDescriptorSet.FromString(descriptors)
        for file in found.file:
            pool.Add(file)
    except (DecodeError, TypeError):
        raise InvalidJobError(f"{where} is no whole set of descriptors; make it with {_PROTOC}") from None
    try:
        return pool.FindMessageTypeByName(message)
    except KeyError:
        names = ", ".join(sorted(_names(found))) or "none"
        raise InvalidJobError(f"{where} has no message {message}; it has {names}") from None
    except TypeError:
        raise InvalidJobError(f"{where} lacks what it imports; make it with {_PROTOC}") from None


def places_of_messages(file: bytes) -> dict[tuple[int, ...], str]:
    """
    Return the full names of a file's messages by where they stand: a number, and those of the messages inside.

    :param file: the descriptor of the file.
    """
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    found = FileDescriptorProto.FromString(file)
    places: dict[tuple[int, ...], str] = {}
    within: list[tuple[tuple[int, ...], str, Iterable[DescriptorProto]]] = [((), found.package, found.message_type)]
    while within:
        place, scope, messages = within.pop()
        for number, message in enumerate(messages):
            name = f"{scope}.{message.name}" if scope else message.name
            places[(*place, number)] = name
            within.append(((*place, number), name, message.nested_type))
    return places


def _names(found: FileDescriptorSet) -> Iterator[str]:
    for file in found.file:
        for message in file.message_type:
            yield f"{file.package}.{message.name}" if file.package else message.name


def _struct(message: Descriptor, within: tuple[str, ...], where: str) -> ColumnType:
    if message.full_name in within:
        raise InvalidJobError(f"{where}: message {message.full_name} contains itself, and a column cannot")
    fields = list(message.fields)
    if not fields:
        raise InvalidJobError(f"{where}: message {message.full_name} has no fields, and a column cannot be empty")
    require_distinct([field.name for field in fields], f"{where}: message {message.full_name}")
    inside = (*within, message.full_name)
    return struct_type([(field.name, _field(field, inside, where)) for field in fields])


def _field(field: FieldDescriptor, within: tuple[str, ...], where: str) -> ColumnType:
    entry = field.message_type
    if entry is not None and entry.GetOptions().map_entry:
        key, value = entry.fields_by_name["key"], entry.fields_by_name["value"]
        return {**map_type(_value(value, within, where)), "keyType": _value(key, within, where)}
    found = _value(field, within, where)
    return array_type(found) if field.is_repeated else found


def _value(field: FieldDescriptor, within: tuple[str, ...], where: str) -> ColumnType:
    if field.type == field.TYPE_GROUP:
        raise InvalidJobError(f"{where}: field {field.full_name} is a group, which is not supported; use a message")
    if field.message_type is not None:
        return _struct(field.message_type, within, where)
    return {
        field.CPPTYPE_INT32: "integer",
        field.CPPTYPE_INT64: "long",
        field.CPPTYPE_UINT32: "long",
        field.CPPTYPE_UINT64: decimal_type(_UNSIGNED_DIGITS, 0),
        field.CPPTYPE_DOUBLE: "double",
        field.CPPTYPE_FLOAT: "float",
        field.CPPTYPE_BOOL: "boolean",
        field.CPPTYPE_ENUM: "string",
        field.CPPTYPE_STRING: "binary" if field.type == field.TYPE_BYTES else "string",
    }[field.cpp_type]
