"""Numbers as people read them."""

from __future__ import annotations

_BYTE_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB")
_KIBI = 1024
_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400


def rows(count: float) -> str:
    """Return a number of rows with separators."""
    return f"{count:,.0f} row{'' if round(count) == 1 else 's'}"


def percent(share: float) -> str:
    """Return a share of one; never 100 % before it is all."""
    return f"{int(share * 1000) / 10:.1f} %"


def size(byte_count: float) -> str:
    """Return a number of bytes in a unit that fits."""
    for unit in _BYTE_UNITS:
        if byte_count < _KIBI or unit == _BYTE_UNITS[-1]:
            break
        byte_count /= _KIBI
    return f"{byte_count:.0f} {unit}" if unit == "bytes" else f"{byte_count:.1f} {unit}"


def duration(seconds: float) -> str:
    """Return a time span with its two largest units."""
    whole = round(seconds)
    for unit, smaller, names in (
        (_DAY, _HOUR, ("d", "h")),
        (_HOUR, _MINUTE, ("h", "min")),
        (_MINUTE, 1, ("min", "s")),
    ):
        if whole >= unit:
            return f"{whole // unit} {names[0]} {whole % unit // smaller} {names[1]}"
    return f"{whole} s"


def versions(count: int) -> str:
    """Return a number of versions."""
    return f"{count:,} version{'' if count == 1 else 's'}"
