"""
A job on real control tables and a real upstream, and a stand-in for Spark, so that no test here starts a JVM.

Airflow is imported where it is needed only: programs that stand for Spark's applications import this module.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from deltalake import write_deltalake

from airflow_backfill_provider import protocol
from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.epoch.epoch_record import EpochCommit
from airflow_backfill_provider.core.errors import BackfillError
from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.core.job.requester import Requester
from airflow_backfill_provider.core.status.compaction import CompactionPolicy
from airflow_backfill_provider.jobs import changed_query, creation, mutations, succession
from airflow_backfill_provider.jobs.backfill import Backfill
from airflow_backfill_provider.jobs.maintenance import compaction
from tests.plain_engine import CountingEngine, make

if TYPE_CHECKING:
    from airflow.sdk.api.datamodels._generated import DagRunType

ROWS = 1000
SOMEBODY = Requester(user="somebody")


@dataclass
class StandInSpark:
    """
    Runs what the applications would, in this process; replaces ``SparkApplicationHook.run``.

    :param submitted: the command lines so far.
    :param rows: for each, how many rows it was said to read at most.
    :param before: failures to raise before an application does anything, as (message, retryable).
    :param after: failures to raise after it has done everything.
    :param lazy: do nothing and report success.
    :param meanwhile: what others do after each epoch of several in one application.
    :param missing: keys that comparisons find missing, one after another.
    """

    submitted: list[list[str]] = field(default_factory=list)
    rows: list[int | None] = field(default_factory=list)
    before: list[tuple[str, bool]] = field(default_factory=list)
    after: list[tuple[str, bool]] = field(default_factory=list)
    lazy: bool = False
    meanwhile: list[Callable[[], object]] = field(default_factory=list)
    missing: list[Sequence[str]] = field(default_factory=list)

    def run(
        self, backfill: Backfill, application: str, arguments: Sequence[str], *, rows: int | None = None, **_: Any
    ) -> None:
        self.submitted.append([application, *arguments])
        self.rows.append(rows)
        if self.before:
            raise failure(*self.before.pop(0))
        if not self.lazy:
            self._do(backfill, arguments)
        if self.after:
            raise failure(*self.after.pop(0))

    def _do(self, backfill: Backfill, arguments: Sequence[str]) -> None:
        match list(arguments):
            case ["--state", state, "--epoch", epoch]:
                assert state == backfill.job.state
                run_epoch(backfill, int(epoch))
            case ["--state", _, "--epoch", epoch, "--epochs", epochs, *until]:
                with as_in_airflow():
                    self._run_epochs(backfill, int(epoch), int(epochs), until[1] if until else None)
            case ["--state", _, "--epoch", epoch, "--step", "apply_changes"]:
                protocol.apply_changes(backfill.store.pinned(int(epoch)), store=backfill.store, engine=CountingEngine())
            case ["--state", _, "--epoch", epoch, "--step", "read_chunk_part", "--part", part]:
                barrier = backfill.store.pinned(int(epoch))
                protocol.read_chunk_part(barrier, int(part), store=backfill.store, engine=CountingEngine())
            case ["--state", _, "--at", at, *_]:
                policy = CompactionPolicy(at=int(at))
                compaction.compact_job(backfill, engine=CountingEngine, policy=policy)
            case ["verify" | "repair" as action, "--state", _, "--requester", who, *steps]:
                from airflow_backfill_provider.applications import spark_application as application

                asked = {"state": backfill.job.state, "requester": Requester.model_validate_json(who)}
                more = {"steps": int(steps[1]) if steps else None} if action == "verify" else {}
                run = {"verify": application.verify, "repair": application.repair}[action]
                with as_in_airflow():
                    run(lambda *_: CountingEngine(self.missing), {}, **asked, **more)
            case [
                "create" | "rebuild" | "rebuild-keep-serving" | "change" as action,
                "--job",
                _,
                "--requested-by",
                who,
            ]:
                actions = {
                    "create": creation.create_job,
                    "rebuild": creation.rebuild_job,
                    "rebuild-keep-serving": succession.grow_successor,
                    "change": changed_query.change_query,
                }
                make(backfill, actions[action], requested_by=who)
            case ["diff", "--job", _, "--requested-by", who]:
                from airflow_backfill_provider.applications import spark_application as application

                with as_in_airflow():
                    application.diff(
                        lambda *_: CountingEngine(),
                        {},
                        definition=backfill.job.model_dump(mode="json"),
                        requested_by=who,
                    )
            case other:
                raise AssertionError(other)

    def _run_epochs(self, backfill: Backfill, epoch: int, epochs: int, until: str | None) -> None:
        for _ in protocol.run_epochs(
            backfill.store.pinned(epoch),
            store=backfill.store,
            upstream=backfill.upstream,
            engine=lambda _: CountingEngine(),
            epochs=epochs,
            until=None if until is None else dt.datetime.fromisoformat(until),
        ):
            if self.meanwhile:
                self.meanwhile.pop(0)()

    @property
    def epochs(self) -> list[int]:
        """The epochs that were submitted."""
        return [int(call[call.index("--epoch") + 1]) for call in self.submitted if "--epoch" in call]


@contextmanager
def as_in_airflow() -> Iterator[None]:
    """Translate errors as the hook does; without an error, Airflow is not needed."""
    try:
        yield
    except BackfillError:
        from airflow_backfill_provider.hooks.errors import airflow_errors

        with airflow_errors():
            raise


def failure(message: str, retryable: bool) -> Exception:
    """Return how the hook reports that an application failed."""
    from airflow_backfill_provider.hooks.errors import airflow_error

    return airflow_error(message, retryable=retryable)


@dataclass
class Lake:
    """
    A folder with an upstream of :data:`ROWS` orders and the definition of a job over it.

    :param folder: where the tables lie.
    :param fields: fields of the job that differ.
    """

    folder: Path
    fields: dict[str, Any] = field(default_factory=dict)

    @property
    def definition(self) -> dict[str, Any]:
        """The job, 400 rows per epoch: three epochs finish it."""
        return {
            "name": "small_orders",
            "upstream": {"path": str(self.folder / "orders"), "key": ["order_id"]},
            "materialized_view": str(self.folder / "small_orders"),
            "query": "SELECT order_id FROM upstream",
            "vnode_count": 4,
            "rate_limit": 400,
            **self.fields,
        }

    @property
    def backfill(self) -> Backfill:
        """The job's tables."""
        return Backfill(BackfillJob(**self.definition))

    def append(self, ids: Sequence[int]) -> None:
        """Add orders as one version of the upstream."""
        write_deltalake(
            str(self.folder / "orders"),
            pa.table({"order_id": pa.array(ids, pa.int64())}),
            mode="append",
            configuration={"delta.enableChangeDataFeed": "true"},
        )

    def create(self) -> None:
        """Create the job."""
        make(self.backfill, requested_by="somebody")

    def inject(self, requester: Requester = SOMEBODY, epochs: int = 1) -> Barrier:
        """Pin a barrier."""
        backfill = self.backfill
        barrier = protocol.inject_barrier(
            store=backfill.store, upstream=backfill.upstream, requester=requester, epochs=epochs
        ).barrier
        assert barrier is not None
        return barrier

    def scatter(self, files: int) -> None:
        """Write so many small files into the view; the tests that use it do not count rows."""
        for n in range(files):
            rows = pa.table({"rows_are_only_counted": pa.array([n], pa.int64())})
            write_deltalake(self.definition["materialized_view"], rows, mode="append")

    def epochs(self, count: int) -> None:
        """Run some epochs."""
        for _ in range(count):
            run_epoch(self.backfill, self.inject().epoch)

    def complete(self) -> None:
        """Run the epochs that complete every vnode."""
        self.epochs(3)
        assert self.backfill.store.state().completed

    def finish(self) -> None:
        """Complete the backfill and mark its view finished."""
        self.complete()
        protocol.finish_job(store=self.backfill.store, requested_by="somebody")

    def cancel(self) -> None:
        """Cancel the job."""
        mutations.cancel_job(store=self.backfill.store, requested_by="somebody")


def run_epoch(backfill: Backfill, epoch: int) -> EpochCommit:
    """Run one pinned epoch."""
    barrier = next(barrier for barrier in backfill.store.barriers(since_epoch=epoch) if barrier.epoch == epoch)
    return protocol.run_epoch(barrier, store=backfill.store, engine=CountingEngine())


@dataclass
class TaskRun:
    """A task run; keeps the XComs that it pushed."""

    run_id: str
    task_id: str
    map_index: int = -1
    dag_id: str = "dag"
    xcoms: dict[str, Any] = field(default_factory=dict)
    task: Any = None
    states: dict[str, dict[str, str]] = field(default_factory=dict)

    def get_task_states(self, *, dag_id: str, task_ids: list[str], run_ids: list[str]) -> dict[str, dict[str, str]]:
        known = self.states if dag_id == self.dag_id else {}
        return {run: {task: state for task, state in known.get(run, {}).items() if task in task_ids} for run in run_ids}

    def xcom_push(self, key: str, value: Any) -> None:
        self.xcoms[key] = value

    def xcom_pull(self, *, task_ids: str, key: str) -> Any:
        """Return what this task run pushed; a test lets one task run stand for several tasks."""
        del task_ids
        return self.xcoms.get(key)


def context(
    task_id: str = "task",
    *,
    run_id: str = "run_1",
    map_index: int = -1,
    dag_id: str = "dag",
    run_type: DagRunType | None = None,
    data_interval_start: dt.datetime | None = None,
    data_interval_end: dt.datetime | None = None,
) -> Any:
    """What Airflow hands to a task run, as far as the operators look at it."""
    from airflow.sdk.api.datamodels._generated import DagRunType
    from airflow.sdk.execution_time.context import OutletEventAccessors

    return {
        "ti": TaskRun(run_id, task_id, map_index, dag_id),
        "dag_run": SimpleNamespace(run_type=run_type or DagRunType.MANUAL),
        "data_interval_start": data_interval_start,
        "data_interval_end": data_interval_end,
        "outlet_events": OutletEventAccessors(),
    }


def succeed(operator: Any, ctx: Any) -> None:
    """Do what Airflow does once it has stored a task run's success and the events of its outlets."""
    ctx["ti"].task = operator
    for callback in operator.on_success_callback:
        callback(ctx)
