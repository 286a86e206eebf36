"""The clock for records; tests pass their own."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable

Clock = Callable[[], dt.datetime]


def utc_now() -> dt.datetime:
    """Return the current instant."""
    return dt.datetime.now(dt.UTC)
