"""
Random schedules through the whole protocol on `deltalake` tables: real upstream and control tables, no Spark.

An attempt of an epoch falls asleep at a named point while others do something: write to the upstream, change settings,
rebuild the job, or run epochs whole or shared. These fall asleep in turn, up to three deep. Then the attempt dies or
continues, as a zombie if it was overtaken. The clock jumps. After each committed epoch the view must equal the query
(I1) and progress must not go back (I3). In the end the backfill must finish within a bounded number of epochs (I4).
"""

from __future__ import annotations

import datetime as dt
import os
import random
import tempfile
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any, ClassVar

from airflow_backfill_provider.core.epoch import crash_points
from airflow_backfill_provider.core.epoch.crash_points import CrashPoint
from airflow_backfill_provider.core.errors import BackfillError
from airflow_backfill_provider.state.store import BackfillStore
from faults.campaign import Campaign, Outcome, WrongError
from tests.builders import NOW, PAID
from tests.dying import Died
from tests.property.backfilling import Backfilling
from tests.property.test_protocol import IDS, VNODE_COUNTS, change_settings, write

DEEPEST = 3
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # noqa: S108 - a folder in memory, if there is one

LAYOUTS = (["id"], ["id"], ["amount"], ["status", "amount"])


class SkewedBackfilling(Backfilling):
    """A job whose task runs have different clocks."""

    skew = dt.timedelta(0)

    def clock(self) -> dt.datetime:
        """Tick, from where the clock jumped to."""
        self._ticks += 1
        return NOW + dt.timedelta(minutes=self._ticks) + self.skew


class Schedule:
    """
    One job, and what happens to it.

    :param backfilling: the job.
    :param random: decides everything.
    """

    steps: ClassVar[tuple[int, int]] = (3, 8)
    """How many steps it has, before it is run to its end."""

    def __init__(self, backfilling: SkewedBackfilling, random: random.Random) -> None:
        self.backfilling = backfilling
        self.epochs = 0
        self.refused: list[str] = []
        self._random = random
        self._steps: dict[Callable[[int], None], int] = {
            self._write: 5,
            self._attempt: 6,
            self._change_settings: 2,
            self._rebuild: 1,
            self._jump: 1,
        }

    def play(self) -> None:
        """Let it happen, then run the backfill to its end."""
        for _ in range(self._random.randint(*self.steps)):
            self._step(0)
        self.settle()
        self.require_end()

    def settle(self) -> None:
        """Run the backfill to its end, whatever the settings are."""
        change_settings(self.backfilling, "pause", False)
        change_settings(self.backfilling, "throttle", 3)
        self.epochs += len(self.backfilling.finish())

    def require_end(self) -> None:
        """Hold the view against the upstream's rows."""
        rows = self.backfilling.orders.rows
        paid = [(i, 100 * amount) for i, (status, amount) in rows.items() if status == "paid" and amount is not None]
        if sorted(self.backfilling.rows(), key=str) != sorted(paid, key=str):
            raise WrongError(f"the view has {self.backfilling.rows()}, and should have {paid}")

    def _step(self, depth: int) -> None:
        (step,) = self._random.choices([*self._steps], [*self._steps.values()])
        step(depth)

    def _write(self, depth: int) -> None:
        del depth
        kind = self._random.choice(["add", "change", "change", "remove", "rekey"])
        write(self.backfilling, kind, *self._random.sample(IDS, 2))

    def _change_settings(self, depth: int) -> None:
        del depth
        kind, *arguments = self._random.choice(
            [
                ("pause", self._random.random() < 0.5),
                ("throttle", self._random.choice([None, 0, 1, 2, 3])),
                ("rescale", self._random.randint(1, max(VNODE_COUNTS))),
                ("repair", self._random.choice(IDS), self._random.randint(0, 2)),
            ]
        )
        change_settings(self.backfilling, kind, *arguments)

    def _rebuild(self, depth: int) -> None:
        self._asleep(depth, self.backfilling.rebuild)

    def _jump(self, depth: int) -> None:
        del depth
        self.backfilling.skew = dt.timedelta(hours=self._random.randint(-50, 50))

    def _attempt(self, depth: int) -> None:
        self._asleep(depth, self._whole if self._random.random() < 0.6 else self._shared)
        self._hold_truth()

    def _whole(self) -> None:
        barrier = self.backfilling.ask().barrier
        if barrier is not None:
            self.backfilling.run(barrier)
            self.epochs += 1

    def _shared(self) -> None:
        barrier = self.backfilling.ask().barrier
        if barrier is not None:
            self.backfilling.changes(barrier)
            for part in self._random.sample(range(len(barrier.parts)), len(barrier.parts)):
                self.backfilling.part(barrier, part)
            self.epochs += 1

    def _asleep(self, depth: int, work: Callable[[], object]) -> None:
        """Do something, falling asleep at a point while others go on, and dying there or not."""
        point, dies = self._random.choice([*CrashPoint]), self._random.random() < 0.4

        def callback(reached: CrashPoint) -> None:
            if reached is not point:
                return
            # Others have points of their own; this one is past its.
            crash_points.install(None)
            self._let_others_go_on(depth)
            if dies:
                raise Died

        before, settings = self.backfilling.store.state(), self.backfilling.store.settings()
        crash_points.install(callback if self._random.random() < 0.8 else None)
        try:
            work()
        except Died:
            pass
        except BackfillError as error:
            self.refused.append(type(error).__name__)
        finally:
            crash_points.install(None)
        store: BackfillStore = self.backfilling.store
        if store.settings().incarnation == settings.incarnation:
            before.require_successor(store.state(), settings.position_order)

    def _let_others_go_on(self, depth: int) -> None:
        if depth + 1 < DEEPEST:
            for _ in range(self._random.randint(0, 3)):
                self._step(depth + 1)

    def _hold_truth(self) -> None:
        """Hold I1, unless an epoch is half done."""
        end = self.backfilling.store.log_end()
        settings = self.backfilling.store.settings()
        if end.commit is not None and end.commit.incarnation == settings.incarnation:
            self.backfilling.assert_truth()


def play(_: int, random: random.Random) -> Outcome:
    """Play one schedule."""
    vnode_count = random.choice(VNODE_COUNTS)
    strategy = random.choice(["no_shuffle", "arrangement", "snapshot"])
    job: dict[str, Any] = {
        "query": PAID,
        "rate_limit": random.choice([1, 2, 3]),
        "strategy": strategy,
        "vnode_count": vnode_count,
        "visibility": random.choice(["every_epoch", "every_epoch", "on_finish"]),
    }
    if strategy == "snapshot":
        job |= {"visibility": "on_finish", "parallelism": random.randint(1, min(3, vnode_count))}
    if strategy == "arrangement":
        job["parallelism"] = random.randint(1, min(3, vnode_count))
        job["distribution_key"] = random.choice(LAYOUTS)
        if job["distribution_key"] != ["id"]:
            job["visibility"] = "every_epoch"
    with tempfile.TemporaryDirectory(prefix="backfill-faults-", dir=MEMORY) as folder:
        backfilling = SkewedBackfilling(Path(folder), **job)
        backfilling.orders.add(*random.sample(IDS, random.randint(0, 6)))
        backfilling.create()
        schedule = Schedule(backfilling, random)
        schedule.play()
    return Outcome(checks=schedule.epochs, about=f"{strategy}; overtaken: {', '.join(schedule.refused) or 'none'}")


CAMPAIGN = Campaign(
    name="schedules",
    about="random schedules of overlapping attempts, deaths, zombies, rebuilds and writes, on `deltalake` tables",
    quick=2_000,
    full=100_000,
    checks="epochs",
    stage=lambda: nullcontext(play),
    processes=os.cpu_count() or 1,
)
