"""
Types of PostgreSQL's columns, with values at their edges, and one way to write a value that both sides can compute.

The database writes values by SQL expressions of this module, and the view's values are written by Python. So nothing of
the package converts a value here.
"""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

Written = Any
"""A value as JSON has it: a text, a list of texts, or null."""


def _text(value: Any) -> Written:
    return str(value)


def _digits(scale: int) -> Callable[[Any], Written]:
    """Write a number as the database does, however many digits and zeros Spark's collect gives it."""
    return lambda value: format(value, f".{scale}f")


def _bits(layout: str) -> Callable[[Any], Written]:
    def write(value: float) -> Written:
        # All of them are one value to both sides.
        return "nan" if value != value else struct.pack(layout, value).hex()  # noqa: PLR0124

    return write


def _items(value: Sequence[Any]) -> Written:
    return [None if item is None else str(item) for item in value]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """
    A type.

    :param type: its name in SQL.
    :param values: expressions in SQL.
    :param in_database: how the database writes a value, in SQL; ``{}`` stands for the column.
    :param in_spark: what to read of the view, in Spark's SQL.
    :param in_view: how a value of the view is written.
    """

    type: str
    values: tuple[str, ...]
    in_database: str = "{}::text"
    in_spark: str = "{}"
    in_view: Callable[[Any], Written] = _text

    def value(self, chance: random.Random) -> str:
        """Draw a value."""
        return "NULL" if chance.random() < 0.1 else f"{chance.choice(self.values)}::{self.type}"

    def written(self, value: Any) -> Written:
        """Write a value of the view."""
        return None if value is None else self.in_view(value)


_MICROSECONDS = "(extract(epoch FROM {}) * 1000000)::numeric(40, 0)::text"
_INSTANT, _LOCAL = "unix_micros({})", "unix_micros(CAST({} AS TIMESTAMP))"
_OUTPUT = "CASE WHEN {0} IS NOT NULL THEN concat({0}) END"
"""As the type writes itself; a cast to text differs for some types."""

_DAYS = "({} - DATE '1970-01-01')::text"
_LONG = ("repeat('long', 3000)", "(SELECT string_agg(md5(i::text), '') FROM generate_series(1, 200) i)", "'short'")

MOOD = "mood"

KINDS = (
    Kind(type="smallint", values=("-32768", "32767", "0")),
    Kind(type="integer", values=("(-2147483648)", "2147483647", "0")),
    Kind(type="bigint", values=("(-9223372036854775808)", "9223372036854775807", "1")),
    Kind(
        type="numeric(38, 10)",
        values=("9999999999999999999999999999.9999999999", "(-0.0000000001)", "0"),
        in_view=_digits(10),
    ),
    Kind(type="numeric(5, 5)", values=("0.99999", "(-0.00001)", "0"), in_view=_digits(5)),
    Kind(type="numeric", values=("'NaN'", "1.50", "'-Infinity'", "1e-30", "1e30")),
    Kind(
        type="real",
        values=("'NaN'", "'-0'", "'Infinity'", "1.1754944e-38", "'1e-45'", "3.4028235e38", "0.1"),
        in_database="CASE WHEN {0} = 'NaN' THEN 'nan' ELSE encode(float4send({0}), 'hex') END",
        in_view=_bits(">f"),
    ),
    Kind(
        type="double precision",
        values=("'NaN'", "'-0'", "'-Infinity'", "5e-324", "1.7976931348623157e308", "0.1"),
        in_database="CASE WHEN {0} = 'NaN' THEN 'nan' ELSE encode(float8send({0}), 'hex') END",
        in_view=_bits(">d"),
    ),
    Kind(type="boolean", values=("true", "false"), in_view=lambda value: str(value).lower()),
    Kind(
        type="date",
        values=("'0001-01-01'", "'9999-12-31'", "'1582-10-10'", "'4713-01-01 BC'", "'12345-06-07'", "'1969-12-31'"),
        in_database=_DAYS,
        in_spark="unix_date({})",
    ),
    Kind(
        type="timestamp",
        values=(
            "'1582-10-10 23:59:59.999999'",
            "'1969-12-31 23:59:59.999999'",
            "'2026-03-29 02:30:00'",
            "'0044-03-15 12:00 BC'",
            "'20000-01-01 00:00:00.000001'",
        ),
        in_database=_MICROSECONDS,
        in_spark=_LOCAL,
    ),
    Kind(
        type="timestamptz",
        values=(
            "'1500-01-01 00:00:00.000001+00'",
            "'2026-10-25 02:30:00+02'",
            "'0044-03-15 12:00+05:30 BC'",
            "'9999-12-31 23:59:59.999999+00'",
            "'12345-01-01 00:00+00'",
        ),
        in_database=_MICROSECONDS,
        in_spark=_INSTANT,
    ),
    Kind(
        type="bytea",
        values=(r"'\x'", r"'\x00ff5c'", "decode(repeat('ab', 700), 'hex')"),
        in_database="encode({}, 'hex')",
        in_view=lambda value: bytes(value).hex(),
    ),
    Kind(type="text", values=("''", "'NULL'", "E'a\\nb\\t\\\\\\'\"'", "'\u00fc\U0001f600'", "'\\N'", "' x '")),
    Kind(type="varchar(9)", values=("'ab  '", "''", "'null'")),
    Kind(type="char(5)", values=("'ab'", "''", "'abcde'"), in_database=_OUTPUT),
    Kind(type="uuid", values=("'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'", "md5('x')")),
    Kind(type="json", values=('\'{"b": 1,  "a": [1]}\'', "'null'", "'\"\\u00e9\"'")),
    Kind(type="jsonb", values=('\'{"b": 1,  "a": [1.10]}\'', "'null'", "'[]'")),
    Kind(type="time", values=("'24:00'", "'23:59:59.999999'", "'00:00'")),
    Kind(type="interval", values=("'1 year 2 months -3 days 04:05:06.7'", "'-1 second'", "'0'")),
    Kind(type="inet", values=("'10.0.0.1'", "'10.0.0.1/8'", "'::1'"), in_database=_OUTPUT),
    Kind(type="bit varying", values=("B'1'", "B''", "B'10101'")),
    Kind(type=MOOD, values=("'sad'", "'ok'")),
    Kind(
        type="integer[]",
        values=("'{1,NULL,-3}'", "'{}'", "'{2147483647}'"),
        in_database="array_to_json({}::text[])",
        in_view=_items,
    ),
    Kind(
        type="text[]",
        values=(r"""'{"a,b","NULL",NULL,"q\"\\ "}'""", "'{}'", "'{\"\"}'"),
        in_database="array_to_json({})",
        in_view=_items,
    ),
)

LONG = Kind(type="text", values=_LONG)
"""Values that the database stores out of line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyColumn:
    """
    A column of a key.

    :param type: its type in SQL.
    :param literal: the value that belongs to a number, in SQL; numbers have different values.
    :param comparable: a value as the database writes it, as one that Python orders as the job does.
    """

    type: str
    literal: Callable[[int], str]
    comparable: Callable[[str], Any]
    in_database: str = "{}::text"
    in_spark: str = "{}"

    @property
    def of_text(self) -> str:
        """How the database writes the value of a text, in SQL with a parameter."""
        if self.type == "uuid":
            # A position may be the beginning of one.
            return "%s::text"
        return self.in_database.format(f"(%s::text::{self.type.partition(' COLLATE')[0]})")


_LETTERS = ("a", "B", "b", "\u00e9", "z", "Z", "", " ", "-", "\U0001f600", "\uffee", "'\\", '"')


def _letters(number: int) -> str:
    text = f"{_LETTERS[number % len(_LETTERS)]}{number // len(_LETTERS)}"
    return "'" + text.replace("'", "''") + "'::text"


def _of_number(template: str) -> Callable[[int], str]:
    return lambda number: template.replace("{}", str(number))


KEYS: tuple[tuple[KeyColumn, ...], ...] = (
    (KeyColumn(type="bigint", literal=lambda number: f"({(number * 7919) % 10007 - 5000})::bigint", comparable=int),),
    (KeyColumn(type='text COLLATE "en-x-icu"', literal=_letters, comparable=str.encode),),
    (KeyColumn(type="uuid", literal=_of_number("md5('{}')::uuid"), comparable=str),),
    (
        KeyColumn(
            type="numeric(12, 3)",
            literal=_of_number("(({} * 37 % 5003)::numeric(12, 3) / 8 - 100)::numeric(12, 3)"),
            comparable=float,
        ),
    ),
    (
        KeyColumn(
            type="timestamptz",
            literal=_of_number("('1969-12-31 23:00:00+00'::timestamptz + {} * interval '97.000013 seconds')"),
            comparable=int,
            in_database=_MICROSECONDS,
            in_spark=_INSTANT,
        ),
    ),
    (
        KeyColumn(type='text COLLATE "en-x-icu"', literal=lambda n: _letters(n % 13), comparable=str.encode),
        KeyColumn(type="integer", literal=lambda n: f"({n // 13 - 20})::integer", comparable=int),
    ),
    (
        KeyColumn(
            type="date",
            literal=lambda n: f"(DATE '1969-12-20' + {n % 20})",
            comparable=int,
            in_database=_DAYS,
            in_spark="unix_date({})",
        ),
        KeyColumn(type="varchar(20)", literal=lambda n: _letters(n // 20), comparable=str.encode),
    ),
)


def read_json(text: str | None) -> Written:
    """Return a list of written values."""
    return None if text is None else json.loads(text)
