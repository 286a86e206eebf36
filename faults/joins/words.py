"""
The expressions of queries over several tables, by the kinds of values.

``{c}`` stands for a column. DataFusion computes most of them as Spark does, and does not know the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

CONDITIONS: Mapping[str, Sequence[str]] = {
    "number": ("{c} > 1", "{c} <> 2", "{c} BETWEEN 0 AND 8", "{c} IN (0, 1, 2, 3)", "({c} < 2 OR {c} > 4)"),
    "decimal": ("{c} > 0", "{c} <> 1.5"),
    "floating": ("{c} > 0", "{c} < 5"),
    "text": ("{c} < 'z'", "{c} <> ''", "{c} LIKE '%a%'", "NOT ({c} = 'a')"),
    "day": ("{c} < DATE'2024-02-27'", "{c} <> DATE'2024-02-20'"),
    "moment": ("{c} < TIMESTAMP'2024-03-31 01:00:00Z'", "{c} <> TIMESTAMP'2024-03-31 01:00:00Z'"),
    "boolean": ("{c}", "NOT {c}", "{c} IS NOT TRUE"),
    "binary": ("{c} <> X'00'", "{c} <> X'0A'"),
}
"""Conditions on a value."""

COMPARISONS: Sequence[str] = ("{c} < {d}", "{c} <> {d}", "{c} >= {d}", "({c} = {d} OR {c} IS NULL)")
"""Conditions on two values of one type."""

EXPRESSIONS: Mapping[str, Sequence[tuple[str, str]]] = {
    "number": (
        ("coalesce({c}, 0)", "number"),
        ("{c} % 3", "number"),
        ("{c} > 2", "boolean"),
        ("-({c} % 100)", "number"),
    ),
    "decimal": (("{c} < 1", "boolean"), ("coalesce({c}, {c})", "decimal")),
    "floating": (("{c} > 1", "boolean"),),
    "text": (("coalesce({c}, 'none')", "text"), ("{c} || '!'", "text"), ("nullif({c}, 'a')", "text")),
    "day": (("coalesce({c}, DATE'1999-12-31')", "day"), ("last_day({c})", "day")),
    "moment": (("{c} IS NULL", "boolean"), ("date_trunc('HOUR', {c})", "moment")),
    "boolean": (("NOT {c}", "boolean"), ("coalesce({c}, false)", "boolean")),
    "binary": (("{c} IS NULL", "boolean"), ("hex({c})", "text")),
}
"""Expressions of a value, each with the kind of its own values."""

OF_TWO: Sequence[tuple[str, str]] = (
    ("coalesce({c}, {d})", ""),
    ("CASE WHEN {c} IS NULL THEN {d} ELSE {c} END", ""),
    ("nullif({c}, {d})", ""),
    ("{c} = {d}", "boolean"),
    ("{c} <=> {d}", "boolean"),
)
"""Expressions of two values of one type, each with the kind of its own values, or the same one."""

_ANY = ("count({c})", "count(DISTINCT {c})", "min({c})", "max({c})", "count_if({c} IS NULL)")
AGGREGATES: Mapping[str, Sequence[str]] = {
    "number": (*_ANY, "sum({c} % 1000)", "avg({c})", "sum(DISTINCT {c} % 10)"),
    "decimal": (*_ANY, "sum({c})", "avg({c})"),
    "floating": ("count({c})", "min({c})", "max({c})", "sum({c})"),
    "text": (*_ANY, "max(length({c}))"),
    "day": _ANY,
    "moment": _ANY,
    "boolean": (*_ANY, "bool_and({c})", "bool_or({c})"),
    "binary": (*_ANY,),
}
"""Aggregates of a value."""
