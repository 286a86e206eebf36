"""Compacting a job's tables: it takes its turn, and then looks again at what is due."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from airflow_backfill_provider import protocol
from airflow_backfill_provider.core.epoch.settings import JobSettings
from airflow_backfill_provider.core.errors import MaterializedViewError
from airflow_backfill_provider.core.job.requester import Requester
from airflow_backfill_provider.core.status.compaction import CompactionPlan, CompactionPolicy, CompactionStep
from airflow_backfill_provider.jobs import creation, mutations
from airflow_backfill_provider.jobs.backfill import Backfill
from airflow_backfill_provider.jobs.maintenance import compaction
from airflow_backfill_provider.strategies.arrangement.files import ArrangementFiles
from airflow_backfill_provider.strategies.arrangement.location import location_of
from tests.builders import Orders, Template, job_of
from tests.plain_engine import CountingEngine

POLICY = CompactionPolicy(at=3)


class TurnTaking(CountingEngine):
    """Records whether it compacts within its turn; another driver may have compacted before."""

    def __init__(self, meanwhile: str | None = None) -> None:
        self.meanwhile = meanwhile
        self.its_turn = False
        self.compacted: list[CompactionPlan] = []

    def exclusive(self, state: str) -> AbstractContextManager[None]:
        return self._turn()

    @contextmanager
    def _turn(self) -> Iterator[None]:
        if self.meanwhile is not None:
            DeltaTable(self.meanwhile).optimize.compact()
        self.its_turn = True
        yield
        self.its_turn = False

    def compact_view(self, settings: JobSettings, plan: CompactionPlan) -> None:
        assert self.its_turn, "I5: an epoch of this machine may be committing"
        self.compacted.append(plan)


def created(lake: Path, **job: Any) -> Backfill:
    made = Backfill(job_of(lake, **job))
    creation.create_job(
        made.job, store=made.store, upstream=made.upstream, engine=CountingEngine, requested_by="tester"
    )
    return made


@pytest.fixture(scope="module")
def small_files(tmp_path_factory: pytest.TempPathFactory) -> Template:
    def make(lake: Path) -> None:
        Orders(lake).add(1, 2, 3)
        made = created(lake)
        for n in range(5):
            rows = pa.table({"rows_are_only_counted": pa.array([n], pa.int64())})
            write_deltalake(made.job.materialized_view, rows, mode="append")

    return Template(tmp_path_factory.mktemp("small_files"), make)


@pytest.fixture
def job(small_files: Template) -> Backfill:
    """A created job whose view lies in five small files."""
    return Backfill(job_of(small_files.restore()))


def test_a_compaction_takes_its_turn(job):
    engine = TurnTaking()
    assert compaction.look(job, POLICY).due
    done = compaction.compact_job(job, engine=lambda: engine, policy=POLICY)
    assert engine.compacted == [done.view]
    assert (done.view.step, done.view.files, done.view.saved_files) == (CompactionStep.COMPACT, 5, 4)


def test_a_compaction_that_another_driver_did_meanwhile_is_not_repeated(job):
    engine = TurnTaking(meanwhile=job.job.materialized_view)
    done = compaction.compact_job(job, engine=lambda: engine, policy=POLICY)
    assert not done.due
    assert engine.compacted == []


def test_the_policys_target_comes_before_the_tables_own(job):
    assert compaction.look(job, CompactionPolicy(at=1, target_file_size=1)).view.saved_files == 0


def test_a_view_that_is_gone_is_refused(job):
    """I6."""
    DeltaTable.create(
        job.job.materialized_view,
        schema=pa.schema([("n", pa.int64())]),
        mode="overwrite",
        configuration={"backfill.job": "another"},
        raise_if_key_not_exists=False,
    )
    with pytest.raises(MaterializedViewError, match="does not hold the view of job paid_orders"):
        compaction.look(job, POLICY)


def test_no_engine_is_made_where_nothing_is_due(job):
    """Starting Spark takes seconds."""

    def refuse() -> TurnTaking:
        raise AssertionError

    assert not compaction.compact_job(job, engine=refuse, policy=CompactionPolicy(at=5)).due


OF_ARRANGEMENT = {"strategy": "arrangement", "rate_limit": 5}


def run_epoch(job: Backfill) -> None:
    protocol.run_next_epoch(
        store=job.store,
        upstream=job.upstream,
        requester=Requester(user="tester"),
        engine=lambda _: CountingEngine(),
    )


@pytest.fixture(scope="module")
def small_changes(tmp_path_factory: pytest.TempPathFactory) -> Template:
    def make(lake: Path) -> None:
        orders = Orders(lake)
        orders.add(*range(120))
        made = created(lake, **OF_ARRANGEMENT)
        for amount in range(3):
            orders.change([119], amount=amount + 10)
            run_epoch(made)

    return Template(tmp_path_factory.mktemp("small_changes"), make)


@pytest.fixture
def arranged(small_changes: Template) -> Backfill:
    """A created job whose changes lie in three small files beside the three larger ones of its arrangement."""
    return Backfill(job_of(small_changes.restore(), **OF_ARRANGEMENT))


def test_changes_of_an_arrangement_are_written_together_and_its_base_is_left_alone(arranged):
    policy = CompactionPolicy(at=2)
    look = compaction.look(arranged, policy)
    assert (look.view.step, look.due) == (None, True)
    assert (look.own_tables["arrangement"].files, look.own_tables["arrangement"].saved_files) == (6, 2)

    compacted: list[CompactionPlan] = []

    class Compactor(TurnTaking):
        def compact_own_table(self, settings: JobSettings, name: str, plan: CompactionPlan) -> None:
            assert self.its_turn
            compacted.append(plan)

    engine = Compactor()
    done = compaction.compact_job(arranged, engine=lambda: engine, policy=policy)
    assert (compacted, engine.compacted) == ([done.own_tables["arrangement"]], [])


def test_an_arrangement_that_no_epoch_reads_any_more_is_not_compacted(arranged):
    """Once every vnode is Completed it is dropped, or kept as it is. If it is gone, nothing is due."""
    arrangement = ArrangementFiles(location_of(arranged.settings()))
    mutations.throttle_job(None, store=arranged.store, requested_by="tester")
    run_epoch(arranged)
    assert arranged.store.state().completed
    assert arrangement.exists()
    assert not compaction.look(arranged, CompactionPolicy(at=1)).own_tables


def test_an_arrangement_that_is_gone_is_not_compacted(arranged):
    ArrangementFiles(location_of(arranged.settings())).drop()
    assert not compaction.look(arranged, CompactionPolicy(at=1)).own_tables
