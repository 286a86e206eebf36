"""
Which epochs of a job a DAG has announced: as events of the view's asset, as metrics and as lineage.

A DAG announces every committed epoch after the last one that a succeeded task run of it announced, whoever pinned and
ran the epoch. So an epoch may be announced twice, but none is left out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.epoch.epoch_record import EpochCommit
from airflow_backfill_provider.core.frozen import Frozen

MOST_EVENTS = 500
"""
The most events of a task run. Airflow stores them all at once with its success, and 3,000 took half a minute, which is
longer than a worker waits for the answer.
"""


class CommittedEpoch(NamedTuple):
    """A committed epoch: its barrier and its commit."""

    barrier: Barrier
    commit: EpochCommit

    @property
    def number(self) -> int:
        """The epoch."""
        return self.commit.epoch


class Announced(Frozen):
    """
    What a DAG has announced of a job.

    :param incarnation: an incarnation of the job when this was written. It shows whether the record is about this job,
        and not about an earlier one at the same place.
    :param epoch: the newest epoch that a succeeded task run announced. At first, it is the newest epoch that was
        committed before the DAG's first task run.
    :param measured: the newest epoch up to which a task run sent metrics.
    """

    incarnation: str
    epoch: int
    measured: int

    def up_to(self, epoch: int, incarnation: str) -> Announced:
        """Return the record after a task run that announced epochs up to this one succeeded; it never goes back."""
        return self.model_copy(update={"epoch": max(epoch, self.epoch), "incarnation": incarnation})

    def measured_up_to(self, epoch: int) -> Announced:
        """Return the record after metrics of the epochs up to this one were sent; it never goes back."""
        return self.model_copy(update={"measured": max(epoch, self.measured)})


def committed(barriers: Iterable[Barrier], commits: Iterable[EpochCommit]) -> list[CommittedEpoch]:
    """Return the epochs of a log that are committed, ascending."""
    pinned = {barrier.epoch: barrier for barrier in barriers}
    return [CommittedEpoch(pinned[commit.epoch], commit) for commit in commits if commit.epoch in pinned]


def after(epoch: int, log: Iterable[CommittedEpoch]) -> list[CommittedEpoch]:
    """Return the epochs of a log that come after one."""
    return [committed_epoch for committed_epoch in log if committed_epoch.number > epoch]


def to_announce(log: Iterable[CommittedEpoch], own: Iterable[CommittedEpoch]) -> list[CommittedEpoch]:
    """
    Return the epochs that a task run announces, in order and each once.

    :param log: the committed epochs after the last one that its DAG announced.
    :param own: the epochs of the task run, which it announces again if it is cleared.
    """
    by_number = {epoch.number: epoch for epoch in [*own, *log]}
    return [by_number[number] for number in sorted(by_number)]


def in_events(epochs: Sequence[CommittedEpoch], most: int = MOST_EVENTS) -> list[Sequence[CommittedEpoch]]:
    """
    Return the epochs of each event: one for each epoch; if that is too many, the first event is of all oldest epochs.

    :param most: the most events.
    """
    together = max(len(epochs) - most, 0)
    oldest = [epochs[: together + 1]] if together else []
    return [*oldest, *([epoch] for epoch in epochs[together + 1 if together else 0 :])]


def to_measure(log: Sequence[CommittedEpoch], *, dag_id: str, ran: Collection[int]) -> list[CommittedEpoch]:
    """
    Return the epochs whose metrics a task run sends: those that its DAG pinned, and those that the task run ran.

    Two DAGs of one job therefore count a row once, unless one of them pins an epoch and the other one runs it.

    :param log: the committed epochs whose metrics the DAG has not sent.
    :param ran: the epochs whose application the task run waited for.
    """
    return [epoch for epoch in log if epoch.barrier.injected_by.dag_id == dag_id or epoch.number in ran]
