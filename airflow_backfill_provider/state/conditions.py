"""Conditions on rows of a control table, as SQL."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AtLeast:
    """The condition that an integer column has at least some value; the column's values grow with each write."""

    column: str
    value: int

    def __str__(self) -> str:
        return f"{self.column} >= {self.value}"
