"""A cache for an answer that is read from tables, valid while the tables' versions stay the same."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class CacheEntry(Generic[Answer]):
    """An answer, the versions it was read at, and when it was read."""

    answer: Answer
    versions: Hashable
    read_at: float = field(default_factory=time.monotonic)


class CachedAnswer(Generic[Answer]):
    """
    Keeps the last answer.

    Read the versions before the answer. A write in between then has a newer version, and the answer is read again.

    :param seconds: how long an answer is valid at most, even if the versions stay the same.
    """

    def __init__(self, seconds: float = math.inf) -> None:
        self._seconds = seconds
        # Replaced in one assignment, because an abandoned thread may still be reading.
        self._last: CacheEntry[Answer] | None = None

    def known(self, versions: Hashable) -> CacheEntry[Answer] | None:
        """Return the last answer if it is valid at some versions; otherwise ``None``."""
        last = self._last
        if last is None or last.versions != versions or time.monotonic() - last.read_at >= self._seconds:
            return None
        return last

    def get(self, versions: Hashable, read: Callable[[], Answer]) -> Answer:
        """Return the answer that is valid at some versions; read it if necessary. A failed read is not cached."""
        known = self.known(versions)
        if known is None:
            known = self._last = CacheEntry(read(), versions)
        return known.answer
