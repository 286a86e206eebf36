"""What a DAG announces of a job: every committed epoch after the last one that a succeeded task run of it announced."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_backfill_provider.core.epoch.announced import Announced, CommittedEpoch, committed

if TYPE_CHECKING:
    from airflow_backfill_provider.state.store import BackfillStore


class Announcing:
    """
    What a DAG has announced of a job, and what is left to announce.

    :param store: the job's control tables.
    :param dag_id: the DAG.
    """

    def __init__(self, store: BackfillStore, dag_id: str) -> None:
        self._store = store
        self._records = store.announcements
        self.dag_id = dag_id
        self._known = self._read()

    def begin(self) -> None:
        """
        Let a DAG that is new to the job begin after the epochs that are committed by now.

        Its first task run does this before it pins or runs an epoch.
        """
        if self._known is None:
            self._write(self._from_now_on())

    def log(self) -> list[CommittedEpoch]:
        """Return the committed epochs that the DAG has not announced, or whose metrics it has not sent, ascending."""
        known = self.announced
        return committed(*self._store.log(since_epoch=min(known.epoch, known.measured) + 1))

    @property
    def announced(self) -> Announced:
        """What the DAG has announced."""
        return self._known or self._from_now_on()

    def announced_up_to(self, epoch: int, incarnation: str) -> None:
        """Record that a task run that announced the epochs up to this one has succeeded."""
        self._write((self._read() or self.announced).up_to(epoch, incarnation))

    def measured_up_to(self, epoch: int) -> None:
        """Record that the metrics of the epochs up to this one were sent."""
        self._write((self._read() or self.announced).measured_up_to(epoch))

    def _read(self) -> Announced | None:
        known = self._records.of(self.dag_id)
        # A record of an earlier job at the same place says nothing: the epochs of this one begin with 1 again.
        return known if known is not None and known.incarnation in self._store.incarnations() else None

    def _write(self, announced: Announced) -> None:
        self._records.write(self.dag_id, announced)
        self._known = announced

    def _from_now_on(self) -> Announced:
        end = self._store.log_end()
        newest = end.last_epoch if end.commit is not None else max(end.last_epoch - 1, 0)
        return Announced(incarnation=self._store.settings().incarnation, epoch=newest, measured=newest)
