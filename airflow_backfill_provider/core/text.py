"""Formats numbers for people."""

from __future__ import annotations

from airflow_backfill_provider.core import durations

_BYTE_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB")
_KIBI = 1024

duration = durations.duration


def rows(count: float) -> str:
    """Format a number of rows."""
    return counted(round(count), "row")


def percent(share: float) -> str:
    """Format a share as a percentage, rounded down so that it is 100 % only for all."""
    return f"{int(share * 1000) / 10:.1f} %"


def size(byte_count: float) -> str:
    """Format a number of bytes in a suitable unit."""
    for unit in _BYTE_UNITS:
        if byte_count < _KIBI or unit == _BYTE_UNITS[-1]:
            break
        byte_count /= _KIBI
    return f"{byte_count:.0f} {unit}" if unit == "bytes" else f"{byte_count:.1f} {unit}"


def counted(count: int, noun: str) -> str:
    """
    Format a number of things.

    :param noun: what they are, in the singular.
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def files(count: int) -> str:
    """Format a number of files."""
    return counted(count, "file")
