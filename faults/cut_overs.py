"""
Random schedules of cut-overs, with and without an approval: as :mod:`faults.schedules`, of a view that serves.

A rebuild grows beside the view, another query is proposed, or the job is rebuilt in place. Somebody looks at the
difference of what waits, and approves it after others went on; or gives it up, or asks for something else, or lets its
time pass. Attempts fall asleep and die as in the other schedules, also between the approval and the cut-over. Nothing
goes live that nobody has approved (I6), the view is true after each epoch (I1), and in the end nothing waits (I4).
"""

from __future__ import annotations

import os
import random
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

from airflow_backfill_provider import protocol
from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.epoch.changed_query import record_of
from airflow_backfill_provider.core.epoch.settings import JobSettings, SettingsChange
from airflow_backfill_provider.core.errors import BackfillError, NotFinishedError
from airflow_backfill_provider.core.job.cut_over import CutOverKind, CutOverSubject
from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.jobs import changed_query, cut_over, revert, succession
from faults.campaign import Campaign, Outcome, WrongError
from faults.schedules import MEMORY, Schedule, SkewedBackfilling
from tests.cut_overs import KnownComparer, approved, seen
from tests.property.backfilling import TESTER
from tests.property.memory_queries import EVERYTHING, ONLY_PAID, QUERIES
from tests.property.test_protocol import IDS, VNODE_COUNTS, change_settings

MOST_ROUNDS = 60
"""The most epochs, of the view and of a rebuild, until everything that waits is live."""


class CutOvers(Schedule):
    """One job with a view that serves, and what happens to it."""

    steps = (8, 16)

    def __init__(self, backfilling: SkewedBackfilling, random: random.Random) -> None:
        super().__init__(backfilling, random)
        self._steps |= {
            self._grow: 2,
            self._run_rebuild: 6,
            self._propose: 2,
            self._answer: 4,
            self._give_up: 2,
            self._finish: 2,
            self._jump: 2,
        }

    def a_definition(self) -> BackfillJob:
        """Draw a definition of the job."""
        is_gated = self._random.random() < 0.8
        drawn: dict[str, Any] = {
            "query": self._random.choice([EVERYTHING, ONLY_PAID]),
            "cut_over": "on_approval" if is_gated else "auto",
            "cut_over_timeout_hours": self._random.choice([None, 20]) if is_gated else None,
        }
        return BackfillJob(**{**self.backfilling.job.model_dump(mode="json"), **drawn})

    def require_approved(self) -> None:
        """Hold I6: nothing is live that nobody has approved."""
        store = self.backfilling.store
        # The log comes first: each of its barriers has its record in the settings.
        barriers, _ = store.log()
        if wrong := unapproved(store.settings_history(), barriers):
            raise WrongError(wrong)
        settings, view = store.settings(), self.backfilling.view
        waits = settings.definition.waits_for_approval and settings.first_rows is None
        is_marked = view.identity.incarnation == settings.incarnation and bool(view.marked_finished)
        if waits and is_marked and not _is_approved(settings, CutOverKind.BACKFILL) and settings.finished_epoch is None:
            raise WrongError("the view is marked as finished, and nobody has approved that")

    def settle(self) -> None:
        """Approve whatever waits, and run epochs until nothing is left to do."""
        for kind, value in (("pause", False), ("throttle", 3)):
            self._hold(lambda kind=kind, value=value: change_settings(self.backfilling, kind, value))  # type: ignore[misc]
        for _ in range(MOST_ROUNDS):
            before = self.epochs, self.backfilling.store.settings().sequence
            for step in (self._whole, self._whole_of_rebuild, self._approve_what_waits, self._finish_it):
                self._hold(step)
            settings = self.backfilling.store.settings()
            waits = settings.successor or settings.proposed or settings.finished_epoch is None
            if not waits and (self.epochs, settings.sequence) == before:
                break
        else:
            raise WrongError(f"I4: not live after {MOST_ROUNDS} rounds: {self.refused[-4:]}")
        self._hold_truth()

    def require_end(self) -> None:
        """Hold the view against the upstream's rows, without the package's own state."""
        query = QUERIES[self.backfilling.store.settings().job["query"]]
        rows = self.backfilling.orders.rows.items()
        wanted = [query({"id": key, "status": status, "amount": amount}) for key, (status, amount) in rows]
        found, expected = self.backfilling.rows(), [row for row in wanted if row is not None]
        if sorted(found, key=str) != sorted(expected, key=str):
            raise WrongError(f"the view has {found}, and should have {expected}")

    def _hold(self, work: Callable[[], object]) -> None:
        """Do something that may be refused, and hold I6."""
        try:
            work()
        except BackfillError as error:
            self.refused.append(type(error).__name__)
        self.require_approved()

    def _hold_truth(self) -> None:
        """Hold I1 as far as the view has the definition in force, and I6."""
        store = self.backfilling.store
        if store.settings_of_view().job == store.settings().job:
            super()._hold_truth()
        self.require_approved()

    def _rebuild(self, depth: int) -> None:
        job = self.a_definition()
        self._asleep(depth, lambda: self.backfilling.rebuild(**job.model_dump(mode="json")))

    def _change_settings(self, depth: int) -> None:
        self._hold(lambda: super(CutOvers, self)._change_settings(depth))

    def _grow(self, depth: int) -> None:
        job = self.a_definition()
        self._asleep(depth, lambda: succession.grow_successor(job, **self._asked()))

    def _propose(self, depth: int) -> None:
        job = self.a_definition()
        self._asleep(depth, lambda: changed_query.change_query(job, **self._asked()))

    def _run_rebuild(self, depth: int) -> None:
        self._asleep(depth, self._whole_of_rebuild)

    def _whole_of_rebuild(self) -> None:
        """Run an epoch of the rebuild that grows beside the view, whose tables are created first."""
        growing = self.backfilling.backfill.successor
        if growing is None:
            return
        asked = self._asked()
        succession.create_successor(**asked)
        barrier = protocol.inject_barrier(
            store=growing.store, upstream=asked["upstream"], requester=TESTER, clock=self.backfilling.clock
        ).barrier
        if barrier is not None:
            self.backfilling.run(barrier, store=growing.store)
            self.epochs += 1

    def _answer(self, depth: int) -> None:
        """Look at the difference of what waits, and approve it after others went on."""

        def work() -> None:
            shown = seen(self.backfilling.backfill, KnownComparer(), self.backfilling.clock)
            self._let_others_go_on(depth)
            store, clock = self.backfilling.backfill.store, self.backfilling.clock
            cut_over.approve(shown, store=store, approved_by="vera", clock=clock)

        self._asleep(depth, work)

    def _approve_what_waits(self) -> None:
        store = self.backfilling.backfill.store
        if cut_over.cut_over_status(store, store.settings()) is not None:
            approved(self.backfilling.backfill, self.backfilling.clock)

    def _give_up(self, depth: int) -> None:
        self._asleep(
            depth,
            lambda: revert.give_up_successor(
                self.backfilling.backfill.store, requested_by="ann", clock=self.backfilling.clock
            ),
        )

    def _finish(self, depth: int) -> None:
        self._asleep(depth, self._finish_it)

    def _finish_it(self) -> None:
        store, clock = self.backfilling.backfill.store, self.backfilling.clock
        with suppress(NotFinishedError):
            protocol.finish_job(store=store, requested_by="ann", clock=clock)

    def _asked(self) -> dict[str, Any]:
        backfilling = self.backfilling
        return {
            "store": backfilling.backfill.store,
            "upstream": backfilling.orders.table,
            "engine": backfilling.engine,
            "requested_by": "ann",
            "clock": backfilling.clock,
        }


def unapproved(history: Sequence[JobSettings], barriers: Sequence[Barrier]) -> str:
    """
    Return what went live without the approval that its definition asks for; empty if nothing did.

    A changed query goes live with a barrier. Until then it can be taken back without an approval.

    :param history: all settings of a job.
    :param barriers: all its barriers.
    """
    live = [
        (record, _KINDS[record.change])
        for record in history
        if record.change is SettingsChange.HAND_OVER
        or (record.change is SettingsChange.FINISH and record.first_rows is None)
    ]
    for before, after in pairwise(barriers):
        former, latter = record_of(history, before), record_of(history, after)
        if before.incarnation == after.incarnation and former is not None and latter is not None:
            live += [(latter, CutOverKind.CHANGE)] if former.job["query"] != latter.job["query"] else []
    for record, kind in live:
        if record.definition.waits_for_approval and not _is_approved(record, kind):
            return f"{kind.words} of record {record.sequence} of the settings went live, and nobody has approved that"
    return ""


_KINDS = {SettingsChange.HAND_OVER: CutOverKind.REBUILD, SettingsChange.FINISH: CutOverKind.BACKFILL}


def _is_approved(settings: JobSettings, kind: CutOverKind) -> bool:
    """Return whether the newest approval in settings is one of their definition and incarnation, of this kind."""
    wanted = CutOverSubject.of(kind, settings.incarnation, settings.definition.definition())
    return settings.approved is not None and settings.approved.subject.model_copy(update={"proposal": 0}) == wanted


def play(_: int, random: random.Random) -> Outcome:
    """Play one schedule."""
    vnode_count = random.choice(VNODE_COUNTS)
    job: dict[str, Any] = {
        "rate_limit": random.choice([2, 3, 5]),
        "strategy": random.choice(["no_shuffle", "arrangement"]),
        "vnode_count": vnode_count,
    }
    with tempfile.TemporaryDirectory(prefix="backfill-faults-", dir=MEMORY) as folder:
        backfilling = SkewedBackfilling(Path(folder), **job)
        backfilling.orders.add(*random.sample(IDS, random.randint(0, 6)))
        schedule = CutOvers(backfilling, random)
        backfilling.create(**schedule.a_definition().model_dump(mode="json"))
        if random.random() < 0.8:
            schedule.settle()
        schedule.play()
        happened = Counter(str(record.change) for record in backfilling.store.settings_history())
    counts = ", ".join(f"{count} {change}" for change, count in sorted(happened.items()))
    return Outcome(checks=schedule.epochs, about=f"{counts}; overtaken: {', '.join(schedule.refused) or 'none'}")


CAMPAIGN = Campaign(
    name="cut-overs",
    about="random schedules of rebuilds and changed queries that wait for an approval, on `deltalake` tables",
    quick=100,
    full=5_000,
    checks="epochs",
    stage=lambda: nullcontext(play),
    processes=os.cpu_count() or 1,
)
