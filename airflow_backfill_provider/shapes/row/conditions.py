"""
The conditions of a query of rows, and whether a row meets them, as far as that is certain without Spark.

Only comparisons of plain columns with literals of their own kind are decided here: numbers, texts, booleans and dates.
Everything else is left to Spark, because another program might compute it otherwise.
"""

from __future__ import annotations

import datetime as dt
import operator
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from airflow_backfill_provider.shapes.row.query import RowQuery
from airflow_backfill_provider.shapes.token_lists import depth_step, outermost

_ENDS = frozenset({TokenType.ORDER_BY, TokenType.LIMIT, TokenType.SEMICOLON})

_COMPARISONS: Mapping[type[exp.Expr], Callable[[Any, Any], Any]] = {
    exp.EQ: operator.eq,
    exp.NEQ: operator.ne,
    exp.LT: operator.lt,
    exp.LTE: operator.le,
    exp.GT: operator.gt,
    exp.GTE: operator.ge,
}


class UndecidedError(Exception):
    """Only Spark can tell."""


def conditions_of(query: RowQuery) -> tuple[str, ...] | None:
    """
    Return the conditions that a row of the upstream must all meet, as the query writes them.

    :returns: ``None`` if the query has several levels, of which a later one may read what an earlier one computes.
    """
    level = query.levels[0]
    if query.has_steps or level.is_piped:
        return None
    tokens = list(level.tokens)
    begin = next((index for index, token in outermost(tokens) if token.token_type is TokenType.WHERE), None)
    if begin is None:
        return ()
    parts = _split(tokens[begin + 1 :])
    return tuple(query.text[part[0].start : part[-1].end + 1] for part in parts if part)


def meets(condition: str, row: Mapping[str, Any]) -> bool | None:
    """
    Return whether a row meets a condition: not if it is false or null.

    :param condition: SQL.
    :param row: the row's values by the names of the columns in lower case.
    :returns: ``None`` if only Spark can tell.
    """
    try:
        return _value(sqlglot.parse_one(condition, read="spark"), row) is True
    except (UndecidedError, SqlglotError):
        return None


def _split(tokens: Sequence[Token]) -> list[list[Token]]:
    """Return the parts between the outermost ANDs; all of it if an OR stands beside them."""
    parts: list[list[Token]] = [[]]
    depth = betweens = 0
    for token in tokens:
        kind = token.token_type
        depth += depth_step(token) + {TokenType.CASE: 1, TokenType.END: -1}.get(kind, 0)
        if depth == 0 and kind in _ENDS:
            break
        if depth == 0 and kind is TokenType.OR:
            return [[found for found in tokens if found.token_type not in _ENDS]]
        betweens += depth == 0 and kind is TokenType.BETWEEN
        if depth == 0 and kind is TokenType.AND:
            if not betweens:
                parts.append([])
                continue
            betweens -= 1
        parts[-1].append(token)
    return parts


def _value(node: exp.Expr, row: Mapping[str, Any]) -> Any:
    """Return the value of an expression; ``None`` is null, as in SQL."""
    if type(node) in _COMPARISONS:
        return _compared(_COMPARISONS[type(node)], node.this, node.expression, row)
    rule = _RULES.get(type(node))
    if rule is None:
        raise UndecidedError
    return rule(node, row)


def _not(node: exp.Expr, row: Mapping[str, Any]) -> Any:
    found = _value(node.this, row)
    return None if found is None else not _of(bool, found)


def _is(node: exp.Expr, row: Mapping[str, Any]) -> Any:
    if not isinstance(node.expression, exp.Null):
        raise UndecidedError
    return _value(node.this, row) is None


def _in(node: exp.Expr, row: Mapping[str, Any]) -> Any:
    if not node.expressions or node.args.get("query"):
        raise UndecidedError
    return _any_of([_compared(operator.eq, node.this, one, row) for one in node.expressions])


def _between(node: exp.Expr, row: Mapping[str, Any]) -> Any:
    if node.args.get("symmetric"):
        raise UndecidedError
    low = _compared(operator.ge, node.this, node.args["low"], row)
    return _both(low, _compared(operator.le, node.this, node.args["high"], row))


def _compared(compare: Callable[[Any, Any], Any], left: exp.Expr, right: exp.Expr, row: Mapping[str, Any]) -> Any:
    one, other = _value(left, row), _value(right, row)
    if one is None or other is None:
        return None
    if isinstance(one, dt.date) != isinstance(other, dt.date):
        one, other = _as_date(one), _as_date(other)
    kinds = {_kind(one), _kind(other)}
    if len(kinds) != 1:
        raise UndecidedError
    return bool(compare(one, other))


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | Decimal):
        return "number"
    if isinstance(value, str):
        return "text"
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        return "date"
    raise UndecidedError


def _as_date(value: Any) -> Any:
    if isinstance(value, str):
        try:
            return dt.date.fromisoformat(value)
        except ValueError:
            raise UndecidedError from None
    return value


def _literal(node: exp.Expr) -> Any:
    if isinstance(node, exp.Neg):
        found = _literal(node.this)
        return -_of(Decimal, found)
    if not isinstance(node, exp.Literal):
        raise UndecidedError
    if node.is_string:
        return str(node.this)
    if "e" in str(node.this).lower():
        raise UndecidedError  # a floating-point number
    try:
        return Decimal(str(node.this))
    except InvalidOperation:
        raise UndecidedError from None


def _column(node: exp.Expr, row: Mapping[str, Any]) -> Any:
    name = node.name.lower()
    if name not in row or not isinstance(node, exp.Column) or len(node.parts) > 2:  # noqa: PLR2004 - a relation and a column
        raise UndecidedError
    return row[name]


def _of(kind: type, value: Any) -> Any:
    if not isinstance(value, kind):
        raise UndecidedError
    return value


def _both(one: Any, other: Any) -> Any:
    return False if False in (one, other) else None if None in (one, other) else True


def _either(one: Any, other: Any) -> Any:
    return True if True in (one, other) else None if None in (one, other) else False


def _any_of(found: Sequence[Any]) -> Any:
    return True if True in found else None if None in found else False


_RULES: Mapping[type[exp.Expr], Callable[[exp.Expr, Mapping[str, Any]], Any]] = {
    exp.Paren: lambda node, row: _value(node.this, row),
    exp.And: lambda node, row: _both(_value(node.this, row), _value(node.expression, row)),
    exp.Or: lambda node, row: _either(_value(node.this, row), _value(node.expression, row)),
    exp.Not: _not,
    exp.Is: _is,
    exp.In: _in,
    exp.Between: _between,
    exp.Boolean: lambda node, _: bool(node.this),
    exp.Null: lambda _, __: None,
    exp.Column: _column,
    exp.Literal: lambda node, _: _literal(node),
    exp.Neg: lambda node, _: _literal(node),
}
