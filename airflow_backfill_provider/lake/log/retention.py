"""How long a Delta table keeps its changes, from its properties."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping

DELETED_FILES = "delta.deletedFileRetentionDuration"
LOG = "delta.logRetentionDuration"

_DEFAULTS = {DELETED_FILES: dt.timedelta(days=7), LOG: dt.timedelta(days=30)}
_UNITS = "year|month|week|day|hour|minute|second|millisecond|microsecond"
_PART = rf"\s+(?P<sign>[+-]?)\s*(?P<count>\d+(?:\.\d*)?|\.\d+)\s+(?P<unit>{_UNITS})s?"
_INTERVAL = re.compile(rf"interval(?:{re.sub('[?]P<[a-z]+>', '?:', _PART)})+")


def changes_kept_for(properties: Mapping[str, str]) -> dt.timedelta | None:
    """
    Return how long changes can be read: the shorter of the retention of files and the retention of commits.

    :param properties: the table's properties, as its log has them.
    :returns: ``None`` if Delta cannot read one of the two, so the retention is unknown.
    """
    kept = [_kept(properties, name) for name in _DEFAULTS]
    return None if None in kept else min(span for span in kept if span is not None)


def unreadable(properties: Mapping[str, str]) -> str:
    """Return the retention properties that Delta cannot read, with their values; empty if there are none."""
    return ", ".join(f"{name} = {properties[name]!r}" for name in _DEFAULTS if _kept(properties, name) is None)


def _kept(properties: Mapping[str, str], name: str) -> dt.timedelta | None:
    text = properties.get(name)
    return _DEFAULTS[name] if text is None else interval(text)


def interval(text: str) -> dt.timedelta | None:
    """
    Read an interval as Delta does (``DeltaConfigs.parseCalendarInterval``), such as ``interval 1 week 12 hours``.

    :returns: ``None`` for what Delta refuses: any other text, months and years, and negative intervals.
    """
    written = " ".join(text.split()).lower()
    if not written.startswith("interval "):
        written = f"interval {written}"
    if not (written.isascii() and _INTERVAL.fullmatch(written)):
        return None
    span, months = dt.timedelta(0), 0
    for part in re.finditer(_PART, written):
        unit, negative = part["unit"], part["sign"] == "-"
        if unit != "second" and "." in part["count"]:
            return None
        count = float(part["count"]) if "." in part["count"] else int(part["count"])
        count = -count if negative else count
        if unit in {"month", "year"}:
            months += int(count) * (12 if unit == "year" else 1)
            continue
        try:
            span += dt.timedelta(**{f"{unit}s": count})
        except OverflowError:
            return None
    return None if months or span < dt.timedelta(0) else span
