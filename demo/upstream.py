"""What differs between the demos: where the orders are, how they change, and how the view is compared with them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from airflow_backfill_provider.core.status.job_status import JobStatus
from demo.folder import Size
from demo.job import QUERY, TOTALS
from demo.orders import KEY
from demo.run import DemoRun

WRITER = "writer"
"""The name of the writer's process."""

SEED = 11
"""The seed of the writer's choices."""


class Upstream(ABC):
    """
    The upstream of a demo.

    :param run: the run of the demo.
    :param size: the size of the demo.
    """

    title: ClassVar[str]
    """Says what it is, as a heading."""

    reading: ClassVar[Sequence[str]]
    """Lines that say how epochs read it."""

    stay_command: ClassVar[str]
    """The command of a demo that keeps everything running at the end."""

    query: ClassVar[str] = QUERY
    """The view's query."""

    key: ClassVar[Sequence[str]] = KEY
    """The key of the view."""

    totals: ClassVar[str] = TOTALS
    """The query of totals over the view."""

    totals_name: ClassVar[str] = "live_totals"
    """The name of the job that keeps them."""

    has_totals: ClassVar[bool] = False
    """Whether the demo keeps totals without being asked to."""

    def __init__(self, run: DemoRun, size: Size) -> None:
        self.run = run
        self.size = size

    @property
    def environment(self) -> Mapping[str, str]:
        """The environment variables that a process needs to run epochs."""
        return {}

    @abstractmethod
    def write_job(self) -> None:
        """Write the job's file, and let this process open the job."""

    @abstractmethod
    def create(self) -> None:
        """Make the table with its first orders, and say so."""

    @abstractmethod
    def start_writer(self) -> None:
        """Start the writer, which never stops by itself, and say so."""

    @abstractmethod
    def before_the_check(self, run_dag: Callable[[str], None]) -> None:
        """
        Make sure that the table can be read as the view has it.

        :param run_dag: runs the DAG once more, under a heading.
        """

    @abstractmethod
    def check_command(self, status: JobStatus, view: str, query: Path) -> Sequence[str]:
        """
        Return the command that compares a view with a query over the orders.

        :param status: of the job that reads the orders; it says which offset its view is at.
        :param view: the view's location.
        :param query: the file with the query.
        """

    @abstractmethod
    def as_of(self, status: JobStatus) -> str:
        """Return in words what the view was compared with."""

    def result(self, views: Mapping[str, str]) -> Sequence[str]:  # noqa: ARG002 - most show no rows
        """
        Return lines with rows that are worth showing at the end; none by default.

        :param views: the location of each job's view by the job's name.
        """
        return ()

    @property
    @abstractmethod
    def places(self) -> Mapping[Path | str, str]:
        """What it leaves behind → what that is."""

    @property
    @abstractmethod
    def commands_meanwhile(self) -> Sequence[str]:
        """What to try while everything keeps running."""

    @property
    @abstractmethod
    def commands_afterwards(self) -> Sequence[str]:
        """What to try after the end."""
