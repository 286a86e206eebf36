"""Formats time spans for people."""

from __future__ import annotations

_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400


def duration(seconds: float) -> str:
    """Format a time span with its two largest units."""
    whole = round(seconds)
    for unit, smaller, names in (
        (_DAY, _HOUR, ("d", "h")),
        (_HOUR, _MINUTE, ("h", "min")),
        (_MINUTE, 1, ("min", "s")),
    ):
        if whole >= unit:
            return f"{whole // unit} {names[0]} {whole % unit // smaller} {names[1]}"
    return f"{whole} s"
