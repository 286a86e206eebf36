"""Keeping what was read from some tables until one of them has another version, which is cheap to ask for."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Known(Generic[Answer]):
    """What was read, at which versions, and when."""

    answer: Answer
    versions: Hashable
    read_at: float = field(default_factory=time.monotonic)


class CachedAnswer(Generic[Answer]):
    """
    What was read last. Ask for the versions first: what is written while it is read has a newer one.

    :param seconds: after which it no longer holds, whatever the versions.
    """

    def __init__(self, seconds: float = math.inf) -> None:
        self._seconds = seconds
        # Replaced as a whole: a thread that nobody waits for any more may still be reading.
        self._last: Known[Answer] | None = None

    def known(self, versions: Hashable) -> Known[Answer] | None:
        """Return what is known, unless reading again at some versions could give something else."""
        last = self._last
        if last is None or last.versions != versions or time.monotonic() - last.read_at >= self._seconds:
            return None
        return last

    def get(self, versions: Hashable, read: Callable[[], Answer]) -> Answer:
        """Return what is known at some versions, or else what is read; a failure is not kept."""
        known = self.known(versions)
        if known is None:
            known = self._last = Known(read(), versions)
        return known.answer
