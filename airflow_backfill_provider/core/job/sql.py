"""Helpers for Spark SQL."""

from __future__ import annotations

import re

RELATION = "upstream"
"""The name of the upstream in a query."""

_MOVING = re.compile(r"^\s*((now|today|tomorrow|yesterday)(\s+\S+)?\s*$|T?\d{1,2}:)", re.IGNORECASE)
"""Texts that Spark parses as a different date or timestamp each day: a word, or a time without a date."""


def quote(identifier: str) -> str:
    """Quote an identifier for Spark SQL."""
    return "`" + identifier.replace("`", "``") + "`"


def text_literal(value: str) -> str:
    """Return a string literal of Spark SQL. Spark would put the value of a variable in place of ``${name}``."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'").replace("${", "\\u0024{") + "'"


def is_relative_date(text: str) -> bool:
    """Return whether Spark parses a text as a different date or timestamp each day."""
    return _MOVING.match(text) is not None
