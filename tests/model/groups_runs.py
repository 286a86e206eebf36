"""
Drivers: play a random history of a view of groups, and check the invariants all the time.

Attempts die before any commit. Some of them go on later as zombies, step by step beside the live attempt and beside
each other. Tables are compacted between any two steps. Somebody damages the view, and a repair mends it. Once the view
is finished it may be rebuilt while it stays in service, and another view reads it.
"""

from __future__ import annotations

from collections import Counter
from copy import copy
from dataclasses import replace
from random import Random

from tests.model.groups_attempt import Attempt, attempt, read_chunk_part
from tests.model.groups_barriers import Barriers
from tests.model.groups_checks import Watch, check_truth
from tests.model.groups_job import History, Job, Protocol, Strategy
from tests.model.groups_queries import GroupQuery, State, Stored, Unit
from tests.model.groups_rows import Sale, a_history, sales
from tests.model.groups_scan import Barrier
from tests.model.truth import InvariantError

ENDLESS = 200
"""After so many epochs without an end, the view is never finished."""
ZOMBIES = 3


class GroupsRun:
    """One history: an upstream, a view of groups over it, and all that happens to it."""

    def __init__(
        self, seed: int | str, query: GroupQuery, strategy: Strategy, protocol: Protocol | None = None
    ) -> None:
        self.random = Random(f"{seed}/{query.name}/{strategy}")
        self.query, self.strategy, self.protocol = query, strategy, protocol or Protocol()
        self.upstream = self.history()
        self.served = self.job(self.random.randint(0, 5))
        self.zombies: list[Attempt] = []
        self.watch = Watch()
        self.happened: Counter[str] = Counter()
        """What the history had: crashes, zombies' steps, compactions, repairs, handovers."""

    def history(self) -> History:
        """Return what the view reads."""
        return a_history(self.random)

    def job(self, base: int, incarnation: int = 1) -> Job:
        """Return an incarnation that starts from a version."""
        return Job(self.upstream, self.query, self.strategy, base, self.protocol, incarnation=incarnation)

    def play(self) -> None:
        """Play to the end: finished, up to date, and no attempt left."""
        served = Barriers(self.random, self.served)
        successor: Barriers | None = None
        rebuilds = self.random.random() < 0.5
        for _ in range(ENDLESS):
            if self.served.is_finished and self._is_up_to_date(self.served) and successor is None:
                break
            self.epoch(served)
            if rebuilds and self.served.is_finished and successor is None:
                rebuilds = False
                successor = self._begin_successor()
            if successor is not None:
                self.epoch(successor)
                if self._may_hand_over(successor.job):
                    self._leave_an_epoch_under_way(served, successor.job)
                    self._hand_over(successor)
                    served, successor = successor, None
        else:
            raise InvariantError(f"I4 progress: {self.served.positions} after {ENDLESS} epochs")
        while self.zombies:
            self._zombie_step()
        self._check(self.served, self.served.committed_to)

    def epoch(self, given: Barriers) -> None:
        """Run an epoch to its commit, whatever happens meanwhile."""
        job, barrier = given.job, given.next()
        if self._may_be_damaged(job, barrier):
            barrier = self._damaged(job, barrier)
        helpers = [read_chunk_part(job, barrier, part) for part in range(barrier.parts) if self.random.random() < 0.2]
        self.zombies = (self.zombies + helpers)[-ZOMBIES:]
        live = self._begin(job, barrier)
        while job.epoch < barrier.epoch:
            self._anything_else(job, barrier)
            chance = self.random.random()
            if chance < 0.25 and self.zombies:
                self._zombie_step(job, barrier)
            elif chance < 0.35:
                self.happened["crashes"] += 1
                self._leave(live)
                live = self._begin(job, barrier)
            else:
                next(live, None)
                self._check_whole(job, barrier)
        self._leave(live)
        if job is self.served and job.is_finished:
            self.watch.begin(job)
        self._check_epoch(job, barrier)

    def _begin(self, job: Job, barrier: Barrier) -> Attempt:
        if self.protocol.parts == "not pinned":
            barrier = replace(barrier, parts=self.random.randint(1, job.scan.vnodes))
        return attempt(job, barrier, self.random.sample(range(barrier.parts), barrier.parts))

    def _leave(self, live: Attempt) -> None:
        """An attempt dies, or sleeps until later."""
        if self.random.random() < 0.6:
            self.zombies = [*self.zombies, live][-ZOMBIES:]

    def _zombie_step(self, job: Job | None = None, barrier: Barrier | None = None) -> None:
        self.happened["steps of zombies"] += 1
        zombie = self.random.choice(self.zombies)
        if next(zombie, None) is None:
            self.zombies.remove(zombie)
        if job is not None and barrier is not None:
            self._check_whole(job, barrier)

    def _anything_else(self, job: Job, barrier: Barrier) -> None:
        """Compact a table; let the reader of a finished view go on."""
        chance = self.random.random()
        if chance < 0.06:
            self.happened["compactions"] += 1
            job.view.compact()
        elif chance < 0.12:
            self.happened["compactions"] += 1
            job.compact_arrangement()
        elif chance < 0.3 and job is self.served and self.watch.begun and not barrier.repairs:
            self.happened["downstream epochs"] += 1
            self.watch.read(job)

    # --- damage and repair ------------------------------------------------------------------------

    def _may_be_damaged(self, job: Job, barrier: Barrier) -> bool:
        return barrier.applies and self.random.random() < 0.15

    def _damaged(self, job: Job, barrier: Barrier) -> Barrier:
        """Somebody writes to the view; the next barrier pins a repair of those units, and accepts the rest."""
        self.happened["repairs"] += 1
        units = self.random.sample(job.query.all_units(), min(2, len(job.query.all_units())))
        here = {row.unit for row in job.view.rows()}
        if here:
            units.append(self.random.choice(sorted(here, key=repr)))
        damage = [row for unit in units for row in self._damage(job, unit)]
        foreign = job.view.merged(lambda row: row.unit in units, damage)
        job.view.commit(foreign, "foreign", job.view.version, has_transaction=False)
        if job is self.served:
            self.watch.forgive(job)
        return replace(barrier, repairs=frozenset(units), since=job.view.version)

    def _damage(self, job: Job, unit: Unit) -> list[Stored]:
        made_up = Sale((0,), amount=self.random.randint(0, 9), at=9)
        damage = {
            "lost": [],
            "wrong": [Stored(unit, State.of([made_up] * 3))],
            "twice": [row for row in job.view.rows() if row.unit == unit] * 2,
        }
        rows = damage[self.random.choice(sorted(damage))]
        if job.query.technique == "slice":
            return [Stored(unit, ("wrong",)) if isinstance(row.row, State) else row for row in rows]
        return rows

    # --- rebuild ----------------------------------------------------------------------------------

    def _begin_successor(self) -> Barriers:
        """A rebuild grows as a job of its own, from a pinned version."""
        return Barriers(self.random, self.job(self.served.committed_to, 2))

    def _may_hand_over(self, successor: Job) -> bool:
        is_as_new = successor.committed_to >= self.served.committed_to
        when = self.protocol.hand_over_when
        return (successor.is_finished or when == "as new") and (is_as_new or when == "finished")

    def _leave_an_epoch_under_way(self, served: Barriers, successor: Job) -> None:
        """An epoch of the former incarnation is pinned and begun, and is given up by the handover."""
        barrier = served.next()
        if barrier.end <= successor.committed_to and self.random.random() < 0.7:
            self.zombies.append(live := self._begin(self.served, barrier))
            for _ in range(self.random.randint(0, 2)):
                next(live, None)

    def _hand_over(self, successor: Barriers) -> None:
        """The successor's rows become those of the view. What its attempts still write is a table of their own."""
        self.happened["handovers"] += 1
        former, grown = self.served, successor.job
        names = [f"{former.incarnation}/{name}/{part}" for name in _WRITES for part in range(former.scan.vnodes)]
        ended = names if self.protocol.hand_over_fences else ()
        if self.protocol.hand_over == "removal, then rows":
            former.view.replace((), "replace", ended=ended)
            self.watch.check_version(former, grown.committed_to)
        former.view.replace(grown.view.rows(), "replace", ended=ended)
        self.watch.hand_over(former, grown.committed_to)
        self.served = successor.job = copy(grown)
        self.served.view, self.served.since = former.view, former.view.version

    # --- what must hold ---------------------------------------------------------------------------

    def _is_up_to_date(self, job: Job) -> bool:
        return job.committed_to == self.upstream.latest

    def _check_epoch(self, job: Job, barrier: Barrier) -> None:
        """I1: the view is the query over the rows that were read; while changes wait, as of V0."""
        waits = job.strategy.visibility == "on_finish" and not barrier.applies
        if barrier.applies or waits:
            self._check(job, job.base if waits else barrier.end)

    def _check(self, job: Job, offset: int) -> None:
        check_truth(job, [row for row in sales(self.upstream.as_of(offset).values()) if _is_read(job, row)])

    def _check_whole(self, job: Job, barrier: Barrier) -> None:
        if job is self.served and barrier.is_steady and self.watch.begun:
            self.watch.check_version(job, barrier.end)


_WRITES = ("removal", "changes", "chunk", "repair")


def _is_read(job: Job, row: Sale) -> bool:
    return job.scan.is_read(job.positions, row)
