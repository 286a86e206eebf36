"""The remedies for damaged control tables: after each of them the job works again."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from airflow_backfill_provider.core.errors import StateError
from airflow_backfill_provider.core.job.requester import Requester
from airflow_backfill_provider.jobs.verification import verifier
from airflow_backfill_provider.state.recovery import what_to_do
from tests.plain_engine import CountingEngine
from tests.property.backfilling import Backfilling, Prepared
from tests.variants import exhaustive

pytestmark = pytest.mark.slow  # whole epochs through Delta tables

VERA = Requester(user="vera")


def verified_once(backfilling: Backfilling) -> None:
    backfilling.epoch()
    verify(backfilling)


def verify(backfilling: Backfilling):
    return verifier.verify_job(backfilling.backfill, engine=CountingEngine, requester=VERA, anew=True)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    return Prepared(tmp_path_factory.mktemp("prepared"), range(10), verified_once, rate_limit=4)


@pytest.fixture
def backfilling(prepared):
    """A job with an epoch, verified."""
    return prepared.restore()


def finish(backfilling: Backfilling) -> None:
    """Run epochs to the end, and look at the job: every control table is read."""
    while not backfilling.backfill.status().finished:
        backfilling.epoch()
    assert verify(backfilling).finished
    status = backfilling.backfill.status()
    assert (status.rows_read, status.warnings, status.verified is None) == (10, (), False)
    backfilling.assert_truth()


def damaged(backfilling: Backfilling, table: str, damage) -> Path:
    """Damage a control table, and return its folder."""
    folder = Path(backfilling.job.state) / table
    for file in [*folder.glob("*.parquet")] if damage != "log" else [*folder.glob("_delta_log/*")]:
        file.write_bytes(b"{" * 50)
    if damage == "gone":
        shutil.rmtree(folder)
    return folder


@pytest.mark.parametrize("damage", [exhaustive("data"), "log"])
@pytest.mark.parametrize("table", ["settings", "barrier_log"])
def test_damaged_tables_of_a_job_are_deleted_and_created_again_with_its_view(backfilling, table, damage):
    """Nothing else helps: a rebuild reads both."""
    damaged(backfilling, table, damage)
    with pytest.raises(StateError, match="delete them and the view, and create the job again"):
        finish(backfilling)
    shutil.rmtree(backfilling.job.state)
    shutil.rmtree(backfilling.job.materialized_view)
    backfilling.create()
    finish(backfilling)


@pytest.mark.exhaustive
@pytest.mark.parametrize("table", ["settings", "barrier_log"])
def test_damaged_tables_of_a_job_are_restored_from_an_up_to_date_copy(backfilling, table, tmp_path):
    shutil.copytree(Path(backfilling.job.state) / table, tmp_path / table)
    folder = damaged(backfilling, table, "log")
    with pytest.raises(StateError, match="restore the job's control tables from an up-to-date copy"):
        finish(backfilling)
    shutil.rmtree(folder)
    shutil.copytree(tmp_path / table, folder)
    finish(backfilling)


@pytest.mark.parametrize("damage", ["data", exhaustive("log"), "gone"])
def test_the_state_of_the_vnodes_is_replaced_by_a_rebuild(backfilling, damage):
    damaged(backfilling, "vnode_state", damage)
    with pytest.raises(StateError, match="rebuild the job"):
        finish(backfilling)
    backfilling.rebuild()
    finish(backfilling)


@pytest.mark.parametrize("damage", [exhaustive("data"), "log"])
def test_the_history_of_verifications_is_deleted_and_nothing_else(backfilling, damage):
    folder = damaged(backfilling, "verifications", damage)
    with pytest.raises(StateError, match="delete this table's folder"):
        verify(backfilling)
    shutil.rmtree(folder)
    finish(backfilling)


def test_the_remedy_depends_on_what_the_table_is_for():
    assert what_to_do("s3://b/_backfill/verifications/") == what_to_do("/x/verifications")
    assert "rebuild" in what_to_do("/x/vnode_state_0123456789ab")
    assert "run airflow-backfill diff again" in what_to_do("/x/differences")
    assert what_to_do("/x/settings") == what_to_do("/x/barrier_log")
