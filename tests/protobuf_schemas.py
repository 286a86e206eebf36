"""Descriptors of Protobuf's messages, as ``protoc`` would write them."""

from __future__ import annotations

from typing import Any

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

KINDS: dict[str, int] = {name[5:].lower(): number for name, number in FieldDescriptorProto.Type.items()}
"""Protobuf's types by the names that ``.proto`` files have for them."""

_ONE, _MANY = FieldDescriptorProto.LABEL_OPTIONAL, FieldDescriptorProto.LABEL_REPEATED


def message(name: str, *parts: FieldDescriptorProto | DescriptorProto) -> DescriptorProto:
    """Return a message with some fields, which get numbers in turn, and messages inside it."""
    found = DescriptorProto(name=name)
    for part in parts:
        if isinstance(part, DescriptorProto):
            found.nested_type.append(part)
            continue
        part.number = len(found.field) + 1
        if part.proto3_optional:
            part.oneof_index = len(found.oneof_decl)
            found.oneof_decl.add(name=f"_{part.name}")
        found.field.append(part)
    return found


def field(name: str, kind: str, *, many: bool = False, optional: bool = False) -> FieldDescriptorProto:
    """Return a field; a kind with a dot is a message's full name, with a colon that of an enum."""
    found = FieldDescriptorProto(name=name, label=_MANY if many else _ONE, proto3_optional=optional)
    if kind in KINDS:
        found.type = KINDS[kind]
    else:
        found.type = KINDS["enum" if kind.startswith(":") else "message"]
        found.type_name = kind.replace(":", ".", 1)
    return found


def map_field(within: str, name: str, key: str, value: str) -> tuple[DescriptorProto, FieldDescriptorProto]:
    """Return a field with a map, and the message of its entries, for the message ``within``."""
    entry = message(f"{name.title()}Entry", field("key", key), field("value", value))
    entry.options.map_entry = True
    return entry, field(name, f".{within}.{entry.name}", many=True)


def file_of(*messages: DescriptorProto, enums: dict[str, list[str]] | None = None, **more: Any) -> FileDescriptorProto:
    """Return a file of the package ``shop``."""
    found = FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3", message_type=messages)
    for name, values in (enums or {}).items():
        enum = found.enum_type.add(name=name)
        for number, value in enumerate(values):
            enum.value.add(name=value, number=number)
    found.MergeFrom(FileDescriptorProto(**more))
    return found


def set_of(*files: FileDescriptorProto) -> bytes:
    """Return a set of descriptors."""
    return FileDescriptorSet(file=files).SerializeToString()


def class_of(descriptors: bytes, name: str) -> Any:
    """Return a class that makes messages."""
    pool = DescriptorPool()
    for file in FileDescriptorSet.FromString(descriptors).file:
        pool.Add(file)
    return GetMessageClass(pool.FindMessageTypeByName(name))


def framed(schema_id: int, body: bytes, *place: int) -> bytes:
    """Return a record in Confluent's framing; without a place, in the short notation of the first message."""
    numbers = b"".join(_signed(number) for number in ((len(place), *place) if place else (0,)))
    return b"\0" + schema_id.to_bytes(4, "big") + numbers + body


def _signed(number: int) -> bytes:
    rest, written = number << 1, []
    while rest > 0x7F:
        written.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*written, rest])
