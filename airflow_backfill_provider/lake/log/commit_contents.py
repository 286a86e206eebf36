"""
Keeps the contents of small commits that this process has read from object stores.

A commit never changes, and an epoch asks for the same commits many times. A listing of the log, which shows at once
whether a table was recreated, identifies them by size and time.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable

LARGEST = 64 << 10
"""Larger commits are not kept; most have a few kilobytes."""

_MOST = 256


class CommitContents:
    """The contents of the commits that were used last."""

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._kept: OrderedDict[Hashable, bytes] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, commit: Hashable, read: Callable[[], bytes]) -> bytes:
        """
        Return a commit's content, and keep it.

        :param commit: what identifies the commit, with its size and time.
        :param read: reads it if it is not kept.
        """
        with self._lock:
            if commit in self._kept:
                self._kept.move_to_end(commit)
                return self._kept[commit]
        content = read()
        with self._lock:
            self._kept[commit] = content
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)
        return content


CONTENTS = CommitContents()
