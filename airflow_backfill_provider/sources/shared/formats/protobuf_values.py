"""
Decodes messages of Protobuf with Google's own library, in Spark's Python workers.

Spark's function for it is in a jar of its own, and gives null for a field that was not set and for one whose default
was written alike. Here a field without presence is never null, and an enum's number without a name is its digits, as in
Protobuf's JSON.

Workers get this module with the query, so a cluster needs no copy of this package; only ``protobuf`` and ``pyarrow``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import Column
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.types import DataType, StringType, StructField, StructType

from airflow_backfill_provider.sources.shared.formats import protobuf_wire
from airflow_backfill_provider.sources.shared.formats.framing import HEADER_LENGTH, NOT_FRAMED
from airflow_backfill_provider.sources.shared.formats.protobuf_wire import misfit

NO_MESSAGE = "is no message of its Protobuf type"

_UNSIGNED = pa.decimal128(20, 0)

Writers = Mapping[int, Mapping[tuple[int, ...], str]]
"""
The registry's schemas: id → the full names of its messages, by where they stand.

A place is the number of a message in its file, followed by the numbers of the messages inside it.
"""


class UnreadableMessageError(Exception):
    """A record is no message of the type; its text says why."""


def protobuf_value(
    record: Column, descriptors: bytes, message: str, delta_type: DataType, writers: Writers | None
) -> Column:
    """
    Return a struct of the value and the error; either is null, and both are if the record is.

    :param record: the bytes.
    :param descriptors: the set of descriptors to read with.
    :param message: the message's full name.
    :param delta_type: the type of the value, as Spark knows it.
    :param writers: the registry's schemas; ``None`` if records are bare messages.
    """
    for module in (sys.modules[__name__], protobuf_wire):
        cloudpickle.register_pickle_by_value(module)
    returns = StructType([StructField("value", delta_type), StructField("error", StringType())])

    def read(records: pa.Array) -> pa.Array:
        return decoded_messages(records, descriptors, message, writers)

    found: Column = arrow_udf(read, returns)(record)  # type: ignore[call-overload]  # its types lack structs
    return found


def decoded_messages(records: pa.Array, descriptors: bytes, message: str, writers: Writers | None) -> pa.Array:
    """Return structs of the values and the errors of records; see :func:`protobuf_value`."""
    from google.protobuf.descriptor_pb2 import FileDescriptorSet
    from google.protobuf.descriptor_pool import DescriptorPool
    from google.protobuf.message_factory import GetMessageClass

    pool = DescriptorPool()
    for file in FileDescriptorSet.FromString(descriptors).file:
        pool.Add(file)
    described = pool.FindMessageTypeByName(message)
    make, convert = GetMessageClass(described), _struct_of(described)

    def read(record: bytes) -> Any:
        return convert(_parsed(record if writers is None else _body(record, message, writers), make))

    values: list[Any] = []
    errors: list[str | None] = []
    for record in records.to_pylist():
        value, error = None, None
        if record is not None:
            try:
                value = read(record)
            except UnreadableMessageError as unreadable:
                error = str(unreadable)
        values.append(value)
        errors.append(error)
    found = [pa.array(values, _struct_type(described)), pa.array(errors, pa.string())]
    return pa.StructArray.from_arrays(found, ["value", "error"])


def _parsed(body: bytes, make: Any) -> Any:
    from google.protobuf.message import DecodeError

    try:
        message = make.FromString(body)
    except DecodeError:
        raise UnreadableMessageError(NO_MESSAGE) from None
    if not message.IsInitialized():
        raise UnreadableMessageError(NO_MESSAGE)
    # Most producers write a message as the library does, so nothing was lost. To look at its bytes takes longer.
    message.DiscardUnknownFields()
    if message.SerializeToString() != body and (problem := misfit(body, message.DESCRIPTOR)):
        raise UnreadableMessageError(problem)
    return message


# --------------------------------------------------------------------------------------------------------- framing


def _body(record: bytes, message: str, writers: Writers) -> bytes:
    """Return the message behind the id of its schema and its place in there."""
    if len(record) <= HEADER_LENGTH or record[0] != 0:
        raise UnreadableMessageError(NOT_FRAMED)
    schema_id = int.from_bytes(record[1:HEADER_LENGTH], "big")
    if schema_id not in writers:
        raise UnreadableMessageError(f"schema {schema_id} is unknown")
    count, at = _number(record, HEADER_LENGTH)
    place: list[int] = []
    # The first message of a file has a shorter notation.
    for _ in range(count):
        number, at = _number(record, at)
        place.append(number)
    written = writers[schema_id].get(tuple(place) or (0,))
    if written != message:
        raise UnreadableMessageError(f"is a message of type {written}" if written else NO_MESSAGE)
    return record[at:]


def _number(record: bytes, at: int) -> tuple[int, int]:
    """Return a number in Protobuf's notation of signed ones, and the place after it."""
    found = shift = 0
    while at < len(record):
        found |= (record[at] & 0x7F) << shift
        shift += 7
        at += 1
        if not record[at - 1] & 0x80:
            return (found >> 1) ^ -(found & 1), at
    raise UnreadableMessageError(NO_MESSAGE)


# ---------------------------------------------------------------------------------------------------------- values


def _struct_of(message: Any) -> Callable[[Any], Any]:
    readers = [(field.name, _field_of(field)) for field in message.fields]
    return lambda value: {name: read(value) for name, read in readers}


def _field_of(field: Any) -> Callable[[Any], Any]:
    name = field.name
    if _is_map(field):
        key, item = _value_of(field.message_type.fields_by_name["key"]), _map_item_of(field)
        return lambda message: [(key(one), item(other)) for one, other in getattr(message, name).items()]
    value = _value_of(field)
    if field.is_repeated:
        return lambda message: [value(item) for item in getattr(message, name)]
    if field.has_presence:
        return lambda message: value(getattr(message, name)) if message.HasField(name) else None
    return lambda message: value(getattr(message, name))


def _map_item_of(field: Any) -> Callable[[Any], Any]:
    return _value_of(field.message_type.fields_by_name["value"])


def _value_of(field: Any) -> Callable[[Any], Any]:
    if field.message_type is not None:
        return _struct_of(field.message_type)
    if field.enum_type is not None:
        names = {number: value.name for number, value in field.enum_type.values_by_number.items()}
        return lambda number: names.get(number, str(number))
    if field.type == field.TYPE_STRING:
        return _text
    return lambda value: value


def _text(value: Any) -> str:
    # Protobuf's older syntax lets texts be any bytes.
    if isinstance(value, bytes):
        raise UnreadableMessageError("has a text that is no UTF-8")
    return str(value)


def _is_map(field: Any) -> bool:
    return field.message_type is not None and bool(field.message_type.GetOptions().map_entry)


# ----------------------------------------------------------------------------------------------------------- types


def _struct_type(message: Any) -> pa.StructType:
    return pa.struct([pa.field(field.name, _field_type(field)) for field in message.fields])


def _field_type(field: Any) -> pa.DataType:
    if _is_map(field):
        entry = field.message_type.fields_by_name
        return pa.map_(_value_type(entry["key"]), _value_type(entry["value"]))
    return pa.list_(_value_type(field)) if field.is_repeated else _value_type(field)


def _value_type(field: Any) -> pa.DataType:
    if field.message_type is not None:
        return _struct_type(field.message_type)
    return {
        field.CPPTYPE_INT32: pa.int32(),
        field.CPPTYPE_INT64: pa.int64(),
        field.CPPTYPE_UINT32: pa.int64(),
        field.CPPTYPE_UINT64: _UNSIGNED,
        field.CPPTYPE_DOUBLE: pa.float64(),
        field.CPPTYPE_FLOAT: pa.float32(),
        field.CPPTYPE_BOOL: pa.bool_(),
        field.CPPTYPE_ENUM: pa.string(),
        field.CPPTYPE_STRING: pa.binary() if field.type == field.TYPE_BYTES else pa.string(),
    }[field.cpp_type]
