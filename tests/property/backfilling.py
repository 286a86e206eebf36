"""A job over the orders of a lake, which the engine in memory runs."""

from __future__ import annotations

import copy
import datetime as dt
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cmp_to_key
from pathlib import Path
from typing import Any

from airflow_backfill_provider import protocol
from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.epoch.epoch_record import EpochCommit
from airflow_backfill_provider.core.epoch.settings import JobSettings
from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.core.job.requester import Requester
from airflow_backfill_provider.core.scan.keys import KeyOrder
from airflow_backfill_provider.jobs import creation
from airflow_backfill_provider.jobs.backfill import Backfill
from airflow_backfill_provider.state.store import BackfillStore
from tests.builders import NOW, Key, Orders, Template, job_of
from tests.plain_source import PlainSource
from tests.property.memory_engine import MemoryEngine, View, Warehouse
from tests.property.memory_queries import EVERYTHING, Output, query_rows

TESTER = Requester(user="tester")


class Backfilling:
    """
    A job over the orders of a lake, and everything at hand to drive it.

    :param lake: folder of upstream, view and control tables.
    :param distribution_key: the columns that vnodes come from; by default the key.
    :param job: fields of the job.
    """

    def __init__(self, lake: Path, *, distribution_key: Sequence[str] = (), **job: Any) -> None:
        self.lake = lake
        self.orders = Orders(lake)
        self.warehouse = Warehouse()
        upstream = {"path": self.orders.path, "key": ["id"], "distribution_key": distribution_key}
        self.job = job_of(lake, **{"upstream": upstream, "query": EVERYTHING, "rate_limit": 3, **job})
        self.engines: list[MemoryEngine] = []
        self._ticks = 0
        self._looking: Backfill | None = None

    @property
    def backfill(self) -> Backfill:
        """The job with its tables, opened again for each process, so that nothing is remembered."""
        return Backfill(self.job)

    @property
    def store(self) -> Any:
        """The job's control tables for looking at them; it remembers what did not change since the last look."""
        if self._looking is None or self._looking.job.state != self.job.state:
            self._looking = self.backfill
        return self._looking.store

    @property
    def view(self) -> View:
        """The view."""
        return self.warehouse.views[self.job.materialized_view]

    def clock(self) -> dt.datetime:
        """Tick once a minute."""
        self._ticks += 1
        return NOW + dt.timedelta(minutes=self._ticks)

    def engine(self) -> MemoryEngine:
        """Start an engine."""
        self.engines.append(MemoryEngine(self.warehouse))
        return self.engines[-1]

    def create(self, **changes: Any) -> JobSettings:
        """Create the job, after changing some of its fields."""
        if changes:
            self.job = BackfillJob(**{**self.job.model_dump(mode="json"), **changes})
        return creation.create_job(self.job, requested_by="creator", **self._with(), upstream=self.orders.table)

    def rebuild(self, **changes: Any) -> JobSettings:
        """Start the job over, with some of its fields changed."""
        self.job = BackfillJob(**{**self.job.model_dump(mode="json"), **changes})
        return creation.rebuild_job(self.job, requested_by="rebuilder", **self._with(), upstream=self.orders.table)

    def ask(
        self,
        requester: Requester = TESTER,
        until: dt.datetime | None = None,
        epochs: int = 1,
        *,
        store: BackfillStore | None = None,
    ) -> protocol.Injection:
        """Ask for a barrier."""
        return protocol.inject_barrier(
            store=store or self.backfill.store,
            upstream=self.orders.table,
            requester=requester,
            until=until,
            epochs=epochs,
            clock=self.clock,
        )

    def inject(self, requester: Requester = TESTER, until: dt.datetime | None = None, epochs: int = 1) -> Barrier:
        """Ask for a barrier, and get one."""
        injection = self.ask(requester, until, epochs)
        assert injection.barrier is not None, injection.reason
        return injection.barrier

    def run(
        self, barrier: Barrier, engine: MemoryEngine | None = None, *, store: BackfillStore | None = None
    ) -> EpochCommit:
        """Run a pinned barrier."""
        store = store or self.backfill.store
        return protocol.run_epoch(barrier, store=store, engine=engine or self.engine(), clock=self.clock)

    def changes(self, barrier: Barrier, engine: MemoryEngine | None = None) -> EpochCommit | None:
        """Apply the changes of a pinned barrier that several task runs share."""
        return protocol.apply_changes(
            barrier, store=self.backfill.store, engine=engine or self.engine(), clock=self.clock
        )

    def part(self, barrier: Barrier, part: int, engine: MemoryEngine | None = None) -> EpochCommit | None:
        """Read one part of a pinned barrier that several task runs share."""
        return protocol.read_chunk_part(
            barrier, part, store=self.backfill.store, engine=engine or self.engine(), clock=self.clock
        )

    def epoch(self) -> EpochCommit:
        """Inject and run one epoch, as one process."""
        store = self.backfill.store
        injection = self.ask(store=store)
        assert injection.barrier is not None, injection.reason
        return self.run(injection.barrier, store=store)

    def epochs(self, most: int = 40) -> Iterator[EpochCommit]:
        """Run epochs until there is nothing to do, as one process."""
        store = self.backfill.store
        for _ in range(most):
            barrier = self.ask(store=store).barrier
            if barrier is None:
                return
            commit = self.run(barrier, store=store)
            yield commit
            if commit.completed and barrier.upstream.to_offset.number == self.orders.table.latest().number:
                return
        raise AssertionError(f"I4: not finished after {most} epochs")

    def finish(self) -> list[EpochCommit]:
        """Run epochs until there is nothing to do, and hold I1 after the last one."""
        commits = list(self.epochs())
        self.assert_truth()
        return commits

    def finish_watched(self) -> list[EpochCommit]:
        """Run epochs until there is nothing to do, and hold I1 and I3 after each."""
        order, before, commits = self.store.settings().position_order, self.store.state(), []
        for commit in self.epochs():
            self.assert_truth()
            after = self.store.state()
            before.require_successor(after, order)
            before = after
            commits.append(commit)
        return commits

    def rows(self) -> list[Output]:
        """Return the view's rows in key order."""
        return self._in_key_order(self.view.rows, self.store.settings().key_order)

    def truth(self) -> list[Output]:
        """Return the rows that I1 asks for, worked out from upstream and committed state alone."""
        settings, state = self.store.settings(), self.store.state()
        barriers, commits = self.store.log()
        commits = [commit for commit in commits if commit.incarnation == settings.incarnation]
        if not commits:
            return []
        last = next(found for found in barriers if found.epoch == commits[-1].epoch)
        table_id = last.upstream.table_id
        source = PlainSource(settings, lambda at: self.warehouse.upstream(self.orders.path, table_id, at))
        visible = (
            source.within(source.at(last.upstream.to_offset.number), source.scan.read(state))
            if last.publishes
            else source.as_of(last.view_after)
        )
        return self._in_key_order(query_rows(settings, source.by_key(visible)), settings.key_order)

    def assert_truth(self) -> None:
        """Hold I1: no row is missing, and none occurs twice."""
        assert self.rows() == self.truth()

    def _in_key_order(self, rows: list[tuple[Key, Output]], order: KeyOrder) -> list[Output]:
        return [row for _, row in sorted(rows, key=cmp_to_key(lambda a, b: order.compare(a[0], b[0])))]

    def _with(self) -> dict[str, Any]:
        return {"store": self.backfill.store, "engine": self.engine, "clock": self.clock}


class Prepared:
    """
    A created job over some orders, restored for each test.

    :param folder: where to keep it.
    :param ids: the orders of the upstream's first version.
    :param further: what else happened before the test begins.
    :param job: fields of the job.
    """

    def __init__(
        self, folder: Path, ids: Iterable[int], further: Callable[[Backfilling], object] = bool, **job: Any
    ) -> None:
        self._job = job

        def make(lake: Path) -> None:
            self._made = Backfilling(lake, **job)
            self._made.orders.add(*ids)
            self._made.create()
            further(self._made)

        self._template = Template(folder, make)
        self._view = copy.deepcopy(self._made.view)

    def restore(self) -> Backfilling:
        """Return the job as it was made."""
        restored = Backfilling(self._template.restore(), **self._job)
        restored.orders.rows = dict(self._made.orders.rows)
        restored._ticks = self._made._ticks
        restored.warehouse.views[restored.job.materialized_view] = copy.deepcopy(self._view)
        return restored
