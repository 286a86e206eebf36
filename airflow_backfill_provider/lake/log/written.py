"""Tells whether a commit file is the one that was seen before, from what a listing says about it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import NamedTuple, Self

import pyarrow.fs as arrow_fs

_SECOND = 1_000_000_000
_OLD_AFTER = 60 * _SECOND
"""The clocks of a store and of this machine differ by less."""


class Written(NamedTuple):
    """
    What identifies a commit file, to notice that its table was replaced by one with as many versions.

    Many object stores round times to seconds. Whatever replaces a table is newer than the files that it replaces. So a
    log that begins before its newest second cannot be mistaken for another one, and a younger log says nothing.

    :param size: in bytes.
    :param modified: in nanoseconds since 1970.
    :param log: size and modification time of the log's oldest commit. If this file is so young that its rounded time
        says nothing, an object of this one look instead, which never equals that of another look. ``None`` if the log
        was not listed, and need not be.
    """

    size: int | None
    modified: int | None
    log: object = None

    @classmethod
    def alone(cls, info: arrow_fs.FileInfo) -> Self:
        """Return what identifies a file of a log that was not listed."""
        return cls(info.size, info.mtime_ns, object() if _may_be_replaced(info) else None)

    @classmethod
    def listed(cls, commits: Mapping[int, arrow_fs.FileInfo], newest: int) -> dict[int, Self]:
        """
        Return what identifies the commit files of a listed log.

        :param newest: the modification time of the newest file in the log, in nanoseconds.
        """
        if not commits:
            return {}
        oldest = commits[min(commits)]
        is_young = _may_be_replaced(oldest) and (oldest.mtime_ns or 0) >= newest
        log = object() if is_young else (oldest.size, oldest.mtime_ns)
        return {version: cls(info.size, info.mtime_ns, log) for version, info in commits.items()}


def _may_be_replaced(info: arrow_fs.FileInfo) -> bool:
    """Return whether another file may get the same time."""
    modified = info.mtime_ns
    return modified is None or (modified % _SECOND == 0 and modified > time.time_ns() - _OLD_AFTER)
