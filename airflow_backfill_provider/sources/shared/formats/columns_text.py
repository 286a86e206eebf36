"""
Columns and their types from SQL's text, such as ``id BIGINT, tags ARRAY<STRING>``, without Spark.

What Spark's parser refuses is refused, and so are types that no Delta table or no JSON object can hold.
"""

from __future__ import annotations

import re
from typing import Any, NoReturn

import sqlglot
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.sources.shared.formats.column_types import (
    MOST_DIGITS,
    ColumnType,
    array_type,
    decimal_type,
    map_type,
    require_distinct,
    struct_type,
)

_SCALARS = {
    "boolean": "boolean",
    "tinyint": "byte",
    "byte": "byte",
    "smallint": "short",
    "short": "short",
    "int": "integer",
    "integer": "integer",
    "bigint": "long",
    "long": "long",
    "float": "float",
    "real": "float",
    "double": "double",
    "date": "date",
    "timestamp": "timestamp",
    "timestamp_ltz": "timestamp",
    "timestamp_ntz": "timestamp_ntz",
    "string": "string",
    "binary": "binary",
}
"""SQL's name → Delta's name."""

_DECIMALS = frozenset({"decimal", "dec", "numeric"})

_INSTEAD = {
    "char": "STRING",
    "character": "STRING",
    "varchar": "STRING",
    "text": "STRING",
    "datetime": "TIMESTAMP or TIMESTAMP_NTZ",
    "time": "STRING",
    "interval": "STRING",
    "variant": "STRUCT, MAP or ARRAY",
    "object": "STRUCT or MAP",
    "json": "STRUCT, MAP or ARRAY",
    "void": "STRING",
    "uuid": "STRING",
}
"""Types that a record's column cannot have → what to write instead."""

_DEFAULT_DECIMAL = (10, 0)

_LITERALS = frozenset({TokenType.STRING, TokenType.NUMBER})

_PLAIN_NAME = re.compile(r"\w+")


def parse_columns(text: str, field: str) -> dict[str, Any]:
    """
    Return the type of a struct with the columns of a text.

    :param text: columns with their types, separated by commas.
    :param field: the field of the definition that has the text, for messages.
    :raises InvalidJobError: if the text is no list of columns, or a type is unknown.
    """
    try:
        tokens = sqlglot.tokenize(text, read="spark")
    except SqlglotError:
        raise InvalidJobError(f"{field} has a quote or a comment that does not end; {_EXAMPLE}") from None
    return _Columns(tokens, field).whole()


_EXAMPLE = 'write columns as "order_id BIGINT, amount DECIMAL(12,2)"'


class _Columns:
    """The tokens of a text, read from left to right."""

    def __init__(self, tokens: list[Token], field: str) -> None:
        self._tokens = tokens
        self._field = field
        self._next = 0

    def whole(self) -> dict[str, Any]:
        """Read all tokens."""
        if not self._tokens:
            raise InvalidJobError(f"{self._field} is empty; {_EXAMPLE}")
        found = self._struct()
        if self._next < len(self._tokens):
            self._refuse("a comma between two columns")
        return found

    def _struct(self) -> dict[str, Any]:
        fields = [self._column()]
        while self._take(TokenType.COMMA):
            fields.append(self._column())
        require_distinct([name for name, _ in fields], self._field)
        return struct_type(fields)

    def _column(self) -> tuple[str, ColumnType]:
        name = self._name()
        self._take(TokenType.COLON)
        kind = self._type(name)
        if self._take(TokenType.NOT):
            raise InvalidJobError(
                f"{self._field}: column {name} is NOT NULL, but a record may lack any field; leave NOT NULL out"
            )
        if self._take(TokenType.COMMENT) and not self._take(TokenType.STRING):
            self._refuse("a text in quotes after COMMENT")
        return name, kind

    def _name(self) -> str:
        token = self._require("the name of a column")
        is_plain = token.token_type not in _LITERALS and _PLAIN_NAME.fullmatch(token.text)
        if token.token_type != TokenType.IDENTIFIER and not is_plain:
            self._next -= 1
            self._refuse("the name of a column, in backticks if it has other signs than letters, digits and _")
        return token.text

    def _type(self, column: str) -> ColumnType:
        token = self._require(f"the type of column {column}")
        name = token.text.lower()
        if token.token_type in {TokenType.IDENTIFIER, TokenType.STRING}:
            self._unknown(column, token.text)
        if name in _SCALARS:
            return _SCALARS[name]
        if name in _DECIMALS:
            return self._decimal(column)
        match name:
            case "array":
                self._expect(TokenType.LT, f"< after ARRAY in column {column}")
                element = self._type(column)
                self._expect(TokenType.GT, f"> after the type of the elements in column {column}")
                return array_type(element)
            case "map":
                return self._map(column)
            case "struct":
                self._expect(TokenType.LT, f"< after STRUCT in column {column}")
                found = self._struct()
                self._expect(TokenType.GT, f"> after the fields of column {column}")
                return found
        return self._unknown(column, token.text)

    def _decimal(self, column: str) -> str:
        precision, scale = _DEFAULT_DECIMAL
        if self._take(TokenType.L_PAREN):
            precision = self._number(f"the number of digits in column {column}")
            if self._take(TokenType.COMMA):
                scale = self._number(f"the number of digits after the point in column {column}")
            self._expect(TokenType.R_PAREN, f") after the digits in column {column}")
        if not (1 <= precision <= MOST_DIGITS and scale <= precision):
            raise InvalidJobError(
                f"{self._field}: column {column} is a DECIMAL({precision},{scale}); a decimal has 1 to {MOST_DIGITS} "
                "digits, and at most as many after the point"
            )
        return decimal_type(precision, scale)

    def _map(self, column: str) -> ColumnType:
        self._expect(TokenType.LT, f"< after MAP in column {column}")
        key = self._type(column)
        self._expect(TokenType.COMMA, f"a comma between the types of keys and values in column {column}")
        value = self._type(column)
        self._expect(TokenType.GT, f"> after the type of the values in column {column}")
        if key != "string":
            raise InvalidJobError(
                f"{self._field}: the keys of column {column} are no STRING, but names in JSON are texts; write "
                "MAP<STRING, …>"
            )
        return map_type(value)

    def _number(self, wanted: str) -> int:
        token = self._require(wanted)
        if not re.fullmatch("[0-9]+", token.text):
            self._next -= 1
            self._refuse(wanted)
        return int(token.text)

    def _unknown(self, column: str, name: str) -> NoReturn:
        instead = _INSTEAD.get(name.lower())
        allowed = ", ".join(sorted({text.upper() for text in _SCALARS}))
        raise InvalidJobError(
            f"{self._field}: column {column} has the type {name}, which a record's field cannot have; "
            + (f"write {instead}" if instead else f"allowed are {allowed}, DECIMAL, ARRAY, MAP and STRUCT")
        )

    # ----------------------------------------------------------------------------------------------------- tokens

    def _take(self, kind: TokenType) -> bool:
        found = self._next < len(self._tokens) and self._tokens[self._next].token_type == kind
        self._next += found
        return found

    def _expect(self, kind: TokenType, wanted: str) -> None:
        if not self._take(kind):
            self._refuse(wanted)

    def _require(self, wanted: str) -> Token:
        if self._next == len(self._tokens):
            self._refuse(wanted)
        self._next += 1
        return self._tokens[self._next - 1]

    def _refuse(self, wanted: str) -> NoReturn:
        rest = self._tokens[self._next :]
        there = f'there is "{rest[0].text}"' if rest else "the text ends"
        raise InvalidJobError(f"{self._field} needs {wanted}, but {there}; {_EXAMPLE}")
