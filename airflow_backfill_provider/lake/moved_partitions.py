"""Commits that say that they change no row, but give rows of a partition another value."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Mapping
from typing import Any

_TIMESTAMP = re.compile(r"^\d{4}-\d\d-\d\d[ T]\d\d:")

Value = str | dt.datetime | None


def moved_partition_columns(actions: Iterable[Mapping[str, Mapping[str, Any]]]) -> frozenset[str]:
    """
    Return the partition columns that have values in a commit's added files that no removed file had.

    Only files without a change of rows count, such as those of a compaction. A commit whose removed files don't say
    their partitions is not judged.

    :returns: the columns' names in data files.
    """
    added: list[Mapping[str, str | None] | None] = []
    removed: list[Mapping[str, str | None] | None] = []
    for action in actions:
        for kind, files in (("add", added), ("remove", removed)):
            file = action.get(kind)
            if file is not None and not file.get("dataChange", True):
                files.append(file.get("partitionValues"))
    if not removed or None in removed:
        return frozenset()
    moved = set()
    for name in {name for values in added for name in values or {}}:
        before = {_as_delta_reads((values or {}).get(name)) for values in removed}
        if any(_as_delta_reads((values or {}).get(name)) not in before for values in added):
            moved.add(name)
    return frozenset(moved)


def _as_delta_reads(text: str | None) -> Value:
    """Return a value as Delta reads it in a session in UTC: an empty text is null, and a zone may be left out."""
    if text is None or not _TIMESTAMP.match(text):
        return text or None
    try:
        found = dt.datetime.fromisoformat(text)
    except ValueError:
        return text
    return found.replace(tzinfo=dt.UTC) if found.tzinfo is None else found.astimezone(dt.UTC)
