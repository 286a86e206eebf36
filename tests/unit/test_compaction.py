"""Compacting a job's tables: whose turn it is, and what is looked at again once it has come."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from airflow_backfill_provider import compaction, creation
from airflow_backfill_provider.backfill import Backfill
from airflow_backfill_provider.core.compaction import CompactionPlan, CompactionPolicy, CompactionStep
from airflow_backfill_provider.core.errors import MaterializedViewError
from airflow_backfill_provider.core.settings import JobSettings
from tests.builders import Orders, job_of
from tests.plain_engine import CountingEngine

POLICY = CompactionPolicy(at=3)


class TurnTaking(CountingEngine):
    """Notes whether it compacts within its turn; somebody else may have been there before it came."""

    def __init__(self, meanwhile: str | None = None) -> None:
        self.meanwhile = meanwhile
        self.its_turn = False
        self.compacted: list[CompactionPlan] = []

    def exclusive(self, settings: JobSettings) -> AbstractContextManager[None]:
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


@pytest.fixture
def job(lake: Path) -> Backfill:
    """A created job whose view lies in five small files."""
    Orders(lake).add(1, 2, 3)
    made = Backfill(job_of(lake))
    creation.create_job(
        made.job, store=made.store, upstream=made.upstream, engine=CountingEngine, requested_by="tester"
    )
    for n in range(5):
        rows = pa.table({"rows_are_only_counted": pa.array([n], pa.int64())})
        write_deltalake(made.job.materialized_view, rows, mode="append")
    return made


def test_a_compaction_takes_its_turn(job):
    engine = TurnTaking()
    done = compaction.compact_job(job, engine=lambda: engine, policy=POLICY)
    assert engine.compacted == [done.view]
    assert (done.view.step, done.view.files, done.view.saved_files) == (CompactionStep.COMPACT, 5, 4)


def test_what_somebody_else_did_while_it_waited_is_not_done_again(job):
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
