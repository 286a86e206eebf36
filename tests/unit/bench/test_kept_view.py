"""A kept view runs the epochs of its jobs."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.jobs.backfill import Backfill
from bench.kept_view import KeptView
from tests.plain_engine import CountingEngine
from tests.unit.stand_in import Lake

pytestmark = pytest.mark.slow  # imports Spark


@pytest.fixture
def lake(tmp_path):
    lake = Lake(tmp_path)
    lake.append(range(1_000))
    return lake


def job(lake, name, **fields):
    return lake.backfill.job.model_copy(
        update={
            "name": name,
            "materialized_view": str(lake.folder / name),
            "state": str(lake.folder / f"{name}_state"),
            **fields,
        }
    )


def test_a_load_runs_epochs_until_history_is_read_and_later_ones_until_nothing_is_left(lake):
    kept = KeptView("copied", (job(lake, "copied"),), "SELECT 1", lake.folder)
    engine = CountingEngine()

    assert len(kept.load(engine)) == 3
    assert kept.run_epochs(engine) == []

    lake.append([2_000])

    assert len(kept.run_epochs(engine)) == 1


def test_the_jobs_of_a_chain_run_one_after_the_other_and_the_last_one_has_the_view(lake):
    first, second = job(lake, "first", rate_limit=500), job(lake, "second", rate_limit=1_000)
    kept = KeptView("orders", (first, second), "SELECT 1", lake.folder)

    assert len(kept.load(CountingEngine())) == 3
    assert kept.location == second.materialized_view
    commits = [Backfill(found).store.log(since_epoch=0)[1] for found in (first, second)]
    assert commits[0][-1].committed_at < commits[1][0].committed_at
