"""Conditions on rows of a control table, as SQL."""

from __future__ import annotations

from dataclasses import dataclass


def text_literal(value: str) -> str:
    """Return a text as a literal for a condition."""
    return "'" + value.replace("'", "''") + "'"


@dataclass(frozen=True, slots=True)
class Since:
    """The condition that an integer column has at least some value; the column's values grow with each write."""

    column: str
    value: int

    def __str__(self) -> str:
        return f"{self.column} >= {self.value}"
