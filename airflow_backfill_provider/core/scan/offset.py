"""
Positions in the history of an upstream, which only its source understands.

A Delta table counts versions, a database has log sequence numbers, a topic has one offset per partition. All of these
are ordered and serializable. The epoch protocol needs nothing else: it compares offsets, pins them in barriers, and
passes them back to the source.
"""

from __future__ import annotations

import functools
from typing import Any

from pydantic import ConfigDict, RootModel, StrictInt, StrictStr

from airflow_backfill_provider.core.frozen import Frozen

Part = StrictInt | StrictStr


@functools.total_ordering
class Offset(RootModel[Part | tuple[Part, ...] | None]):
    """
    A position in the history of one upstream.

    All offsets of one upstream have the same form: a number, a text, or a sequence of these, compared part by part. A
    source that counts its history puts the count first; the lag is computed from it. ``None`` lies before all history.
    """

    model_config = ConfigDict(frozen=True)

    @property
    def number(self) -> int | None:
        """The offset as a whole number, -1 before all history; ``None`` if it has another form."""
        if self.root is None:
            return -1
        return self.root if isinstance(self.root, int) else None

    def distance_from(self, earlier: Offset) -> int:
        """Return how many steps of the source's count the offset lies after another one; 0 if it is not after it."""
        if self <= earlier:
            return 0
        first, before = self._parts[0], earlier._parts[0] if earlier._parts else -1
        return first - before if isinstance(first, int) and isinstance(before, int) else 1

    @property
    def _parts(self) -> tuple[Part, ...]:
        if self.root is None:
            return ()
        return self.root if isinstance(self.root, tuple) else (self.root,)

    def __lt__(self, other: object) -> bool:
        if not isinstance(other, Offset):
            return NotImplemented
        # Offsets of one upstream have one form, so parts at the same index have the same type.
        parts: tuple[Any, ...] = self._parts
        return parts < other._parts

    def __str__(self) -> str:
        if self.number is not None:
            return str(self.number)
        return ", ".join(map(str, self._parts))


BEGINNING = Offset(None)
"""The offset before all of an upstream's history."""


class HistoryPoint(Frozen):
    """
    An offset that a job has reached, with a mark by which the source checks that the history is still the same.

    :param mark: such as the time that a Delta commit records for itself. If an older copy was restored and written to,
        the same offset has another mark. ``None`` if there is none.
    """

    offset: Offset
    mark: str | None = None
