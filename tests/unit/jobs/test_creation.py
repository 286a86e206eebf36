"""Creating a job: what it writes, and that it is idempotent and repaired after a crash."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from deltalake import DeltaTable

from airflow_backfill_provider.core.epoch.settings import SettingsChange
from airflow_backfill_provider.core.errors import (
    JobNotCreatedError,
    MaterializedViewError,
    StateError,
)
from airflow_backfill_provider.core.scan.progress import BackfillState, NotStarted
from airflow_backfill_provider.jobs import creation, mutations
from tests.builders import NOW
from tests.dying import Died
from tests.property.backfilling import Backfilling
from tests.unit.jobs import creation_helpers
from tests.unit.jobs.creation_helpers import _die, files_of, upstream

backfilling = creation_helpers.backfilling
prepared = creation_helpers.prepared
created = creation_helpers.created

pytestmark = pytest.mark.slow  # whole epochs through Delta tables


def test_creating_writes_settings_state_and_an_empty_view(backfilling):
    settings = backfilling.create()
    assert settings == backfilling.store.settings()
    assert (settings.sequence, settings.change, settings.strategy) == (1, SettingsChange.CREATE, "no_shuffle")
    assert (settings.requested_by, settings.rate_limit) == ("creator", 5)
    assert settings.requested_at > NOW
    assert backfilling.store.state() == BackfillState(epoch=0, vnodes=(NotStarted(),) * 4)
    assert backfilling.rows() == []
    assert [call for engine in backfilling.engines for call in engine.calls] == ["check", "ensure_tables"]


def test_the_settings_begin_where_the_definition_says(lake):
    backfilling = Backfilling(lake, strategy="arrangement", parallelism=3, rate_limit=7)
    backfilling.orders.add(1)
    settings = backfilling.create()
    assert (settings.parallelism, settings.rate_limit) == (3, 7)
    rebuilt = backfilling.rebuild(parallelism=2, rate_limit=8)
    assert (rebuilt.parallelism, rebuilt.rate_limit) == (2, 8)


@pytest.mark.parametrize(
    ("query", "distribution_key", "used"),
    [
        ("SELECT id FROM upstream", ["amount"], ["id", "amount"]),
        ("SELECT amount FROM upstream", [], ["id", "amount"]),
        ("SELECT status FROM upstream", ["amount"], ["id", "status", "amount"]),
    ],
)
def test_columns_of_the_keys_are_used_also_if_the_query_leaves_them_out(backfilling, query, distribution_key, used):
    settings = backfilling.create(query=query, **upstream(backfilling, distribution_key=distribution_key))
    assert [column.name for column in settings.upstream.columns] == used


def test_only_the_used_columns_are_remembered(backfilling):
    settings = backfilling.create(query="SELECT id FROM upstream WHERE amount > 0")
    assert [(column.name, column.type) for column in settings.upstream.columns] == [("id", "long"), ("amount", "long")]
    assert settings.upstream.table_id == backfilling.orders.table.at().table_id


def test_creating_again_changes_nothing_and_starts_no_engine(backfilling):
    """Starting Spark takes seconds."""
    first = backfilling.create()
    started, files = len(backfilling.engines), files_of(backfilling.lake)
    assert backfilling.create() == first
    assert len(backfilling.engines) == started
    assert files_of(backfilling.lake) == files
    assert creation.is_created(backfilling.job, backfilling.store)


def test_another_rate_limit_is_no_other_definition_and_does_not_throttle(created):
    """
    The settings are authoritative; the definition only says where they begin.

    See docs/concepts/rules.md#the-settings-decide.
    """
    assert created.create(rate_limit=99).rate_limit == 5


def test_a_creation_that_died_before_the_view_is_completed_by_creating_again(backfilling, monkeypatch):
    """I2."""
    with monkeypatch.context() as patched:
        patched.setattr("tests.property.memory_engine.MemoryEngine.ensure_tables", _die)
        with pytest.raises(Died):
            backfilling.create()
    assert not creation.is_created(backfilling.job, backfilling.store)
    first = backfilling.store.settings()
    assert backfilling.create() == first
    backfilling.finish()
    assert len(backfilling.rows()) == 10


def test_a_creation_that_died_before_the_view_is_completed_by_the_first_epoch(backfilling, monkeypatch):
    """I2."""
    with monkeypatch.context() as patched:
        patched.setattr("tests.property.memory_engine.MemoryEngine.ensure_tables", _die)
        with pytest.raises(Died):
            backfilling.create()
    assert len(backfilling.finish()) == 2
    assert len(backfilling.rows()) == 10


def test_a_creation_that_died_before_the_view_is_completed_by_the_first_epoch_that_has_work(backfilling, monkeypatch):
    """I2: an epoch without work, which needs no view, may come before it."""
    with monkeypatch.context() as patched:
        patched.setattr("tests.property.memory_engine.MemoryEngine.ensure_tables", _die)
        with pytest.raises(Died):
            backfilling.create()
    mutations.pause_job(store=backfilling.store, requested_by="x")
    assert backfilling.ask().newest is not None
    mutations.resume_job(store=backfilling.store, requested_by="x")
    backfilling.finish()
    assert len(backfilling.rows()) == 10


def test_creators_at_once_create_one_job(backfilling):
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda _: backfilling.create(), range(4)))
    assert len({settings.incarnation for settings in found}) == 1
    assert len(backfilling.store.settings_history()) == 1
    backfilling.finish()
    assert len(backfilling.rows()) == 10


def test_a_view_that_is_gone_after_epochs_wrote_to_it_is_not_created_again(created):
    """I6: an empty view would miss the rows that were read."""
    created.epoch()
    shutil.rmtree(created.job.materialized_view)
    with pytest.raises(MaterializedViewError, match="is gone from .* restore it, or rebuild the job"):
        created.create()
    assert not Path(created.job.materialized_view).exists()
    created.rebuild()
    created.finish()
    assert len(created.rows()) == 10


def test_a_state_that_is_gone_after_epochs_wrote_it_is_not_created_again(created):
    """I6: create is the first task of every run, so it meets a lost state first."""
    created.epoch()
    shutil.rmtree(f"{created.job.state}/vnode_state")
    with pytest.raises(StateError):
        created.create()


def test_a_state_restored_from_an_older_copy_is_refused(created):
    """I6: to restore the state from a copy is what its own errors advise."""
    created.epoch()
    DeltaTable(f"{created.job.state}/vnode_state").restore(1)
    with pytest.raises(StateError):
        created.epoch()


def test_a_job_that_was_not_created_says_so(backfilling):
    with pytest.raises(JobNotCreatedError, match="create it first"):
        backfilling.ask()
    assert not creation.is_created(backfilling.job, backfilling.store)
