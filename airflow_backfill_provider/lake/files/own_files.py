"""Which data files of a Delta table lie in its own folder."""

from __future__ import annotations

import re
from collections.abc import Iterable

from airflow_backfill_provider.core.errors import UpstreamError

_ABSOLUTE = re.compile(r"(?:[a-z][a-z0-9+.-]*:)?/", re.IGNORECASE)
"""How an absolute path or a URI begins. Spark writes a local URI with one slash (``file:/a``)."""


def lies_outside(path: str) -> bool:
    """
    Return whether a file lies outside of its table, like the files of a shallow clone.

    :param path: the path in the table's log.
    """
    return _ABSOLUTE.match(path) is not None


def require_own(location: str, paths: Iterable[str]) -> None:
    """
    Refuse a table with files outside of its folder, because their own table may vacuum them.

    :param location: the table.
    :param paths: the paths in its log.
    :raises UpstreamError: with what to do.
    """
    if any(map(lies_outside, paths)):
        raise UpstreamError(
            f"{location} refers to data files outside its folder (a shallow clone); materialize views over the "
            "original, or make a deep copy"
        )
