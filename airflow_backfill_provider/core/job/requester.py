"""The requester of an epoch, a verification or a change of settings."""

from __future__ import annotations

from collections.abc import Iterator

from airflow_backfill_provider.core.frozen import Frozen


class Requester(Frozen):
    """
    The requester: a task run of Airflow, or a user of the command line.

    All tries of a task run (a retry, a cleared task) are equal, so that each finds the barrier that an earlier one
    pinned.
    """

    dag_id: str | None = None
    run_id: str | None = None
    task_id: str | None = None
    map_index: int = -1
    user: str | None = None

    @property
    def is_task_run(self) -> bool:
        """Whether the requester is a task run, and not a user of the command line."""
        return self.dag_id is not None

    def __str__(self) -> str:
        if self.dag_id is None:
            return self.user or "unknown"
        mapped = f"[{self.map_index}]" if self.map_index >= 0 else ""
        return f"{self.dag_id}.{self.task_id}{mapped}{_OF_RUN}{self.run_id}"


_OF_RUN = " of run "


def is_task_run(requested_by: str) -> bool:
    """Return whether a record's requester, as text, is a task run."""
    return _OF_RUN in requested_by


def possible_task_runs(requested_by: str) -> Iterator[Requester]:
    """
    Yield the task runs that a record's requester, as text, may be; ids of DAGs and of tasks may have dots.

    A task run of a mapped task is left out.
    """
    task, found, run_id = requested_by.partition(_OF_RUN)
    parts = task.split(".") if found else []
    for dots in range(1, len(parts)):
        yield Requester(dag_id=".".join(parts[:dots]), task_id=".".join(parts[dots:]), run_id=run_id)
