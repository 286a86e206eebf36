"""
The point of its upstream's history that a job begins at, as its definition names it.

An adopted table shows the query's rows as of this point. A view that keeps former rows has them since then.
"""

from __future__ import annotations

import datetime as dt
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, StrictInt

OLDEST: Literal["oldest"] = "oldest"
"""The oldest version since which the upstream still has all changes, with the rows that it had then."""


def _version_or_instant(value: Any) -> Any:
    if value == OLDEST:
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        if value < 0:
            raise ValueError(f"{value} is no version; versions begin with 0")
        return value
    try:
        found = dt.datetime.fromisoformat(value) if isinstance(value, str) else value
    except ValueError:
        found = None
    if not isinstance(found, dt.datetime) or found.tzinfo is None:
        raise ValueError(
            "must be a version of the upstream, such as 42, or a time with its zone, such as 2026-11-28T02:00:00Z; "
            f"with keep also {OLDEST}"
        )
    return found.astimezone(dt.UTC)


AsOf = Annotated[StrictInt | dt.datetime | Literal["oldest"], BeforeValidator(_version_or_instant)]
"""A version of the upstream, a time, or :data:`OLDEST`."""
