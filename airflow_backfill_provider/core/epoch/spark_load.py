"""What Spark's own metrics say about an epoch: how large the cluster was, and whether it was late with its work."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from airflow_backfill_provider.core import text
from airflow_backfill_provider.core.frozen import Frozen

MOST_GC_SHARE = 0.2
"""An application that spends more than this share of its tasks' time on garbage collection is late."""

MOST_QUEUED_SHARE = 0.25
"""An application whose stages wait longer than this share of the epoch for a slot is late."""


class SparkLoad(Frozen):
    """
    The load of a Spark application during an epoch. A field is ``None`` if Spark did not tell, and is never guessed.

    :param slots: the tasks that can run at the same time.
    :param memory_bytes: the memory of all executors together, in which tasks run and rows are kept.
    :param spilled_bytes: bytes that tasks wrote to disk because they did not fit into memory.
    :param gc_share: the share of the tasks' time that was spent on garbage collection, 0 to 1.
    :param queued_seconds: how long stages waited for their first slot, added up.
    """

    slots: int | None = None
    memory_bytes: int | None = None
    spilled_bytes: int | None = None
    gc_share: float | None = None
    queued_seconds: float | None = None

    def lateness(self, seconds: float) -> str:
        """
        Return why the application is late with its work, or the empty string if it is not, or nothing is known.

        :param seconds: how long the epoch took.
        """
        if self.spilled_bytes:
            return f"it spilled {text.size(self.spilled_bytes)} to disk"
        if self.gc_share is not None and self.gc_share > MOST_GC_SHARE:
            return f"it spent {text.percent(self.gc_share)} of its tasks' time on garbage collection"
        if self.queued_seconds is not None and self.queued_seconds > MOST_QUEUED_SHARE * seconds:
            return f"its stages waited {text.duration(self.queued_seconds)} for free slots"
        return ""


def load_of_all(loads: Sequence[SparkLoad | None]) -> SparkLoad | None:
    """
    Return the load of the applications that shared an epoch: their clusters together, and the worst of their waits.

    :returns: ``None`` if one of them is unknown.
    """
    known = [load for load in loads if load is not None]
    if not known or len(known) < len(loads):
        return None

    def combined(field: str, how: Callable[[list[float]], float]) -> float | None:
        values = [getattr(load, field) for load in known]
        return None if None in values else how(values)

    return SparkLoad.model_validate(
        {
            "slots": combined("slots", sum),
            "memory_bytes": combined("memory_bytes", sum),
            "spilled_bytes": combined("spilled_bytes", sum),
            "gc_share": combined("gc_share", max),
            "queued_seconds": combined("queued_seconds", max),
        }
    )
