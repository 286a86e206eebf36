"""How long a Delta table keeps its changes, by its properties."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping

DELETED_FILES = "delta.deletedFileRetentionDuration"
LOG = "delta.logRetentionDuration"

_DEFAULTS = {DELETED_FILES: dt.timedelta(days=7), LOG: dt.timedelta(days=30)}
_PART = re.compile(r"(\d+)\s*(week|day|hour|minute|second|millisecond|microsecond)s?\b", re.IGNORECASE)


def changes_kept_for(properties: Mapping[str, str]) -> dt.timedelta:
    """
    Return how long changes can be read: the shorter one of what keeps their files and what keeps their commits.

    :param properties: the table's properties, as its log has them.
    """
    return min(_interval(properties.get(name, "")) or default for name, default in _DEFAULTS.items())


def _interval(text: str) -> dt.timedelta:
    """Read an interval as Delta writes it, such as ``interval 1 week 12 hours``; months and years are no such."""
    return sum(
        (dt.timedelta(**{f"{unit.lower()}s": int(count)}) for count, unit in _PART.findall(text)), dt.timedelta(0)
    )
