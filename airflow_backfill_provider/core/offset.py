"""
Places in the history of an upstream, which only its source understands.

A Delta table counts versions, a database has log sequence numbers, a topic has an offset for each partition. All of
them are ordered, and can be written down. The epoch protocol needs no more than that: it compares offsets, pins them in
barriers, and hands them back to the source.
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
    A place in the history of one upstream.

    Offsets of one upstream all have the same form: a number, a text, or several of these, compared from the first to
    the last. A source that counts its history puts the count first, for the lag. ``None`` lies before all history.
    """

    model_config = ConfigDict(frozen=True)

    @property
    def number(self) -> int | None:
        """The offset as one whole number, -1 before all history; ``None`` if it is something else."""
        if self.root is None:
            return -1
        return self.root if isinstance(self.root, int) else None

    def distance_from(self, earlier: Offset) -> int:
        """Return how many steps the offset lies after an earlier one, by what the source counts; 0 if it does not."""
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
        # Parts at one place are of one type, for offsets of one upstream have one form.
        mine: tuple[Any, ...] = self._parts
        return mine < other._parts

    def __str__(self) -> str:
        if self.number is not None:
            return str(self.number)
        return ", ".join(map(str, self._parts))


BEGINNING = Offset(None)
"""Before all of an upstream's history."""


class HistoryPoint(Frozen):
    """
    An offset that a job has come to, and what tells that the upstream's history is still the same one.

    :param mark: what the source found there, such as the time at which a Delta commit says that it was written. An
        older copy that was put back and written on has the same offset, with another mark. ``None`` if there is none.
    """

    offset: Offset
    mark: str | None = None
