"""
Where a value of Avro may become another one, because of the schemas that it was written with and is read with.

Avro compares the types of the two schemas and takes the bytes as they are: it ignores the units of times and the scales
of decimals. It makes floating-point numbers of whole ones, also of those with too many digits. And Spark cuts a decimal
of few digits to 64 bits.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_backfill_provider.sources.shared.formats.avro_types import named_types, qualified
from airflow_backfill_provider.sources.shared.formats.parts import ELEMENTS, VALUES, Path

_UNITS = {
    "date": "days",
    "time-millis": "milliseconds of a day",
    "time-micros": "microseconds of a day",
    "timestamp-millis": "milliseconds",
    "timestamp-micros": "microseconds",
    "timestamp-nanos": "nanoseconds",
    "local-timestamp-millis": "milliseconds",
    "local-timestamp-micros": "microseconds",
    "local-timestamp-nanos": "nanoseconds",
}
"""Logical type → what its numbers count."""

_EXACT_BELOW = {("int", "float"): 1 << 24, ("long", "float"): 1 << 24, ("long", "double"): 1 << 53}
"""The types of a whole number and of the floating-point number that is made of it → from where digits get lost."""

_SHORT_DIGITS, _SHORT_BYTES = 18, 8
"""The most digits of a decimal that Spark cuts to so many bytes."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """
    What two schemas mean.

    :param conflict: what they contradict each other about; empty if they do not.
    :param promoted: where a floating-point number stands that was a whole one → a literal that its absolute value must
        be below, or it may be another one.
    :param digits: where a decimal stands that is read with more digits than it may have → the same, of its own type.
    """

    conflict: str = ""
    promoted: Mapping[Path, str] = field(default_factory=dict)
    digits: Mapping[Path, str] = field(default_factory=dict)


def agreement(writer: str, reader: str) -> Agreement:
    """Compare the schema that values were written with and the one that they are read with; they may be the same."""
    found = list(_compared(_Type.of(writer), _Type.of(reader), ()))
    return Agreement(
        next((one.conflict for _, one in found if one.conflict), ""),
        {path: one.promoted for path, one in found if one.promoted},
        {path: one.digits for path, one in found if one.digits},
    )


def with_more_digits(reader: str) -> str:
    """Return a schema whose decimals have enough digits that Spark reads them whole; their values may be too great."""

    def wider(part: Any) -> Any:
        if isinstance(part, list):
            return [wider(one) for one in part]
        if not isinstance(part, dict):
            return part
        changed = {"precision": _SHORT_DIGITS + 1} if _is_cut(part) else {}
        return {**{name: wider(one) for name, one in part.items()}, **changed}

    return json.dumps(wider(json.loads(reader)))


@dataclass(frozen=True, slots=True)
class _Scalar:
    """What is to be known of a scalar; see :class:`Agreement`."""

    conflict: str
    promoted: str
    digits: str


@dataclass(frozen=True, slots=True)
class _Type:
    """
    A part of a schema.

    :param schema: as parsed JSON.
    :param namespace: of the enclosing type.
    :param named: full name → a type that has one, and the namespace within it.
    """

    schema: Any
    namespace: str
    named: Mapping[str, tuple[Any, str]]

    @classmethod
    def of(cls, text: str) -> _Type:
        parsed = json.loads(text)
        return cls(parsed, "", dict(named_types(parsed)))

    def branches(self) -> Iterator[_Type]:
        """Return the types of a union, each of which is an object; of another type, itself."""
        match self.schema:
            case list():
                for branch in self.schema:
                    yield from self.within(branch).branches()
            case str():
                full = qualified(self.schema, self.namespace)
                schema, namespace = self.named.get(full, self.named.get(self.schema, ({"type": self.schema}, "")))
                yield _Type(schema, namespace, self.named)
            case {"type": dict() | list() as inner}:
                yield from self.within(inner).branches()
            case {"type": "record" | "error", "name": str() as name}:
                full = qualified(name, str(self.schema.get("namespace", self.namespace)))
                yield _Type(self.schema, full.rpartition(".")[0], self.named)
            case {"type": str() as kind} if (named := self.within(kind)).is_reference:
                yield from named.branches()
            case _:
                yield self

    @property
    def is_reference(self) -> bool:
        """Whether it is the name of a type that is defined elsewhere."""
        return isinstance(self.schema, str) and (
            self.schema in self.named or qualified(self.schema, self.namespace) in self.named
        )

    def within(self, schema: Any) -> _Type:
        """Return a part of this type."""
        return _Type(schema, self.namespace, self.named)

    def part(self, name: str) -> _Type:
        """Return a named part of an object."""
        return self.within(self.schema[name])

    @property
    def kind(self) -> str:
        """The name of an object's type."""
        return str(self.schema["type"])

    @property
    def logical(self) -> str:
        """The name of its logical type; empty if it has none."""
        return str(self.schema.get("logicalType", ""))

    def fields(self) -> Mapping[str, _Type]:
        """Return the fields of a record by their names."""
        return {one["name"]: self.within(one["type"]) for one in self.schema["fields"]}


def _compared(writer: _Type, reader: _Type, path: Path) -> Iterator[tuple[Path, _Scalar]]:
    """Yield where the types have scalars, and what is to be known of each."""
    for read in reader.branches():
        for written in writer.branches():
            yield from _of_branch(written, read, path)


def _of_branch(written: _Type, read: _Type, path: Path) -> Iterator[tuple[Path, _Scalar]]:
    match written.kind, read.kind:
        case ("array", "array"):
            yield from _compared(written.part("items"), read.part("items"), (*path, ELEMENTS))
        case ("map", "map"):
            yield from _compared(written.part("values"), read.part("values"), (*path, VALUES))
        case ("record" | "error", "record" | "error"):
            fields = written.fields()
            for one in read.schema["fields"]:
                names = [name for name in (one["name"], *one.get("aliases", ())) if name in fields]
                if names:
                    yield from _compared(fields[names[0]], read.within(one["type"]), (*path, one["name"]))
        case _:
            yield path, _Scalar(_conflict(written, read, path), _promoted(written, read), _digits(read.schema))


def _conflict(written: _Type, read: _Type, path: Path) -> str:
    where = f"field {'.'.join(path)}" if path else "the value"
    units = _UNITS.get(written.logical), _UNITS.get(read.logical)
    if None not in units and units[0] != units[1]:
        return f"was written with {where} in {units[0]}, which the schema to read with takes for {units[1]}"
    if written.logical == read.logical == "decimal":
        scales = [one.schema.get("scale", 0) for one in (written, read)]
        if scales[0] != scales[1]:
            return (
                f"was written with {scales[0]} digits behind the point in {where}, and the schema to read with has "
                f"{scales[1]}"
            )
    return ""


def _promoted(written: _Type, read: _Type) -> str:
    bound = _EXACT_BELOW.get((written.kind, read.kind))
    return f"{bound}D" if bound else ""


def _digits(read: Mapping[str, Any]) -> str:
    return f"{10 ** (read['precision'] - read.get('scale', 0))}BD" if _is_cut(read) else ""


def _is_cut(schema: Mapping[str, Any]) -> bool:
    """Return whether Spark cuts values of a type to 64 bits."""
    is_long = schema.get("type") == "bytes" or (schema.get("type") == "fixed" and schema["size"] > _SHORT_BYTES)
    is_decimal = schema.get("logicalType") == "decimal" and isinstance(schema.get("precision"), int)
    return is_long and is_decimal and schema["precision"] <= _SHORT_DIGITS
