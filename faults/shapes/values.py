"""Types of columns, and values of each, with many edge cases."""

from __future__ import annotations

import datetime as dt
import random
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa

KEY_TYPES = (
    *("byte", "short", "integer", "long", "long", "string", "string", "date", "timestamp", "timestamp_ntz"),
    *("decimal(20,0)", "decimal(38,18)", "decimal(18,4)", "decimal(5,3)", "binary", "boolean"),
)
"""Types that a key column may have; the usual ones twice."""

NESTED_TYPES = (
    "array<integer>",
    "map<string,integer>",
    "struct<a:integer,b:string>",
    "array<struct<a:integer,b:string>>",
)

VALUE_TYPES = (*KEY_TYPES, "float", "double", "double", *NESTED_TYPES)
"""Types that any column may have, with any writer."""

SPARK_TYPES = ("char(8)", "varchar(12)", "variant")
"""Types that only Spark writes."""

PARTITION_TYPES = frozenset({"string", "integer", "date"})

_ARROW = {
    "byte": pa.int8(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "string": pa.string(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "binary": pa.binary(),
    "boolean": pa.bool_(),
    "float": pa.float32(),
    "double": pa.float64(),
    "variant": pa.string(),
    "array<integer>": pa.list_(pa.int32()),
    "map<string,integer>": pa.map_(pa.string(), pa.int32()),
    "struct<a:integer,b:string>": pa.struct([("a", pa.int32()), ("b", pa.string())]),
    "array<struct<a:integer,b:string>>": pa.list_(pa.struct([("a", pa.int32()), ("b", pa.string())])),
}

_SQL = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"}

_BITS = {"byte": 8, "short": 16, "integer": 32, "long": 64}

_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")

_STRINGS = (
    *(
        "",
        " ",
        "a",
        "A",
        "Z",
        "aa",
        "a ",
        "ä",
        "e\u0301",
        "\u00e9",
        "'",
        '"',
        "`",
        "%",
        "_",
        "\\",
        "\\n",
        "\\d+",
        "null",
    ),
    # In UTF-16 the first of these two comes after the second, in UTF-8 before it.
    *("\ufffd", "\U00010000", "10:15", "today", "now", "1", "1.5", "2024-02-29", "2024-02-29 23:59:59.999999"),
    "x" * 32 + "\U0010ffff",
    "\U0001f642" * 40,
)
_PREFIX = "the same beginning of more than 32 characters "
IN_MESSAGES = (_PREFIX,)
"""Pieces of values that no message may contain."""

_MOMENTS = [
    dt.datetime.fromisoformat(text)
    for text in (
        *(
            "0001-01-01",
            "1200-02-29T12:00:00.000001",
            "1582-10-04T23:59:59.999999",
            "1582-10-15",
            "1883-11-18T12:03:57",
        ),
        *("1899-12-31T23:59:59.999", "1969-12-31T23:59:59.999999", "1970-01-01", "2024-03-10T02:30:00"),
        *(
            "2024-03-31T01:30:00.5",
            "2024-10-27T00:30:00.000999",
            "2261-01-01T00:00:00.000001",
            "9999-12-31T23:59:59.999999",
        ),
    )
]
_NEAR = dt.datetime.fromisoformat("2024-02-28T23:59:59.998")


def arrow_type(kind: str) -> pa.DataType:
    """Return Arrow's type for a column."""
    if found := _DECIMAL.fullmatch(kind):
        return pa.decimal128(*map(int, found.groups()))
    return pa.string() if kind.startswith(("char", "varchar")) else _ARROW[kind]


def sql_type(kind: str) -> str:
    """Return Spark's name for a column's type."""
    return _SQL.get(kind, kind)


def stored_type(kind: str) -> str:
    """Return Spark's name for the type of a column's values before they are written to a table."""
    return "string" if kind == "variant" or kind.startswith(("char", "varchar")) else sql_type(kind)


def is_nested(kind: str) -> bool:
    """Return whether a column's values have parts."""
    return "<" in kind


def a_value(random: random.Random, kind: str, *, few: bool = False) -> Any:
    """
    Return a value of a type; never null.

    :param few: whether to take the value from a small pool.
    """
    if few:
        return random.choice(_FEW[kind])
    if kind in _BITS:
        return _integer(random, _BITS[kind])
    if found := _DECIMAL.fullmatch(kind):
        return _decimal(random, *map(int, found.groups()))
    if found := re.fullmatch(r"(char|varchar)\((\d+)\)", kind):
        width = int(found[2])
        text = f"{random.randrange(10**6):06d}ab" if random.random() < 0.8 else "é" * width
        # A CHAR always has its full width, so that padding does not matter.
        return text.ljust(width)[:width] if found[1] == "char" else text[: random.randint(1, width)]
    return _DRAWN[kind](random)


def _integer(random: random.Random, bits: int) -> int:
    most = 2 ** (bits - 1)
    return random.choice((-most, 1 - most, most - 1, -1, 0)) if random.random() < 0.1 else random.randint(-20, 100)


def _decimal(random: random.Random, precision: int, scale: int) -> Decimal:
    most = 10**precision - 1
    # Doubles have 53 bits, so neighbours of these round to the same number.
    near = 10 ** (precision - 1) + random.randrange(400)
    unscaled = random.choice((near, near, near, -near, random.randint(-50, 50), random.choice((-most, most, 0))))
    return Decimal((int(unscaled < 0), tuple(int(digit) for digit in str(abs(unscaled))), -scale))


def _string(random: random.Random) -> str:
    chance = random.random()
    if chance < 0.4:
        return f"{_PREFIX}{random.randrange(300)}"
    return random.choice(_STRINGS) if chance < 0.6 else f"{random.choice('abcXYZé')}{random.randrange(300)}"


def _moment(random: random.Random) -> dt.datetime:
    if random.random() < 0.3:
        return random.choice(_MOMENTS)
    return _NEAR + dt.timedelta(microseconds=random.randrange(4_000), days=random.choice((0, 0, 1, -30_000)))


def _day(random: random.Random) -> dt.date:
    if random.random() < 0.3:
        return _moment(random).date()
    return dt.date(1970, 1, 1) + dt.timedelta(days=random.randint(-200, 200) - random.choice((0, 0, 141_000)))


def _float(random: random.Random) -> float:
    edges = (float("nan"), float("inf"), float("-inf"), -0.0, 0.0, 1e-30, 1.5e30)
    return random.choice(edges) if random.random() < 0.3 else random.randint(-400, 400) / 8


def _struct(random: random.Random) -> dict[str, Any]:
    return {"a": random.choice((None, random.randint(-9, 9))), "b": random.choice((None, "", "b", "é"))}


def _variant(random: random.Random) -> str:
    return random.choice(('{"a": 1, "b": [1, null]}', "[]", '"text"', "null", "-1.25", "true", '{"": {"a.b": "é"}}'))


_DRAWN: dict[str, Callable[[random.Random], Any]] = {
    "string": _string,
    "date": _day,
    "timestamp": lambda random: _moment(random).replace(tzinfo=dt.UTC),
    "timestamp_ntz": _moment,
    "binary": lambda random: random.choice(
        (b"", b"\x00", b"\x7f", b"\x80", b"\xff\xff", random.randbytes(random.choice((1, 2, 40))))
    ),
    "boolean": lambda random: random.random() < 0.5,
    "float": _float,
    "double": _float,
    "variant": _variant,
    "array<integer>": lambda random: [
        random.choice((None, random.randint(-9, 9))) for _ in range(random.randint(0, 3))
    ],
    "map<string,integer>": lambda random: [
        (name, random.choice((None, 1, -7))) for name in random.sample(("a", "b", "", "é"), random.randint(0, 3))
    ],
    "struct<a:integer,b:string>": _struct,
    "array<struct<a:integer,b:string>>": lambda random: [_struct(random) for _ in range(random.randint(0, 2))],
}

_FEW: dict[str, tuple[Any, ...]] = {
    "string": ("a", "b", "x y", "ä/=%:'", "A"),
    "integer": (-1, 0, 7),
    "date": (dt.date(1969, 12, 31), dt.date(2024, 2, 29)),
}
