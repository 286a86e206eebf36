"""Finds the checkpoints among the files of a Delta log."""

from __future__ import annotations

import re
from collections.abc import Iterable

_CHECKPOINT = re.compile(r"(?:^|/)(\d{20})\.checkpoint(?:\.(\d{10})\.(\d{10})|\.[0-9a-f-]{36})?\.(?:parquet|json)$")


def checkpoints_in(paths: Iterable[str]) -> dict[int, list[str]]:
    """
    Return the complete checkpoints among the files of a log.

    :param paths: the paths of the files.
    :returns: version → the paths of one checkpoint of it, ascending. A version may have several; any of them will do.
    """
    found: dict[tuple[int, str], list[str]] = {}
    for path in sorted(paths):
        if name := _CHECKPOINT.search(path):
            # The parts of one checkpoint have one number of parts.
            found.setdefault((int(name[1]), name[3] or path), []).append(path)
    whole = {key: parts for key, parts in found.items() if not key[1].isdigit() or len(parts) == int(key[1])}
    return {version: whole[version, kind] for version, kind in sorted(whole)}
