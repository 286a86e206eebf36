"""Who asked for something: a task run of Airflow, or a command line."""

from __future__ import annotations

from airflow_backfill_provider.core.frozen import Frozen


class Requester(Frozen):
    """
    Who asked for something: a task run of Airflow, or a command line.

    Two requests of one task run (a retry, a cleared task) are equal, so that the second one finds the barrier that
    the first one pinned.
    """

    dag_id: str | None = None
    run_id: str | None = None
    task_id: str | None = None
    map_index: int = -1
    user: str | None = None

    @property
    def is_task_run(self) -> bool:
        """Whether this names one task run, and not just somebody at a terminal."""
        return self.dag_id is not None

    def __str__(self) -> str:
        if self.dag_id is None:
            return self.user or "unknown"
        mapped = f"[{self.map_index}]" if self.map_index >= 0 else ""
        return f"{self.dag_id}.{self.task_id}{mapped}{_OF_RUN}{self.run_id}"


_OF_RUN = " of run "


def is_task_run(requested_by: str) -> bool:
    """Tell whether what a record says of who asked for it is a :class:`Requester` that is a task run."""
    return _OF_RUN in requested_by
