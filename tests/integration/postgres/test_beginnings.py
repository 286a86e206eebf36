"""What is made in the database for a job: nothing by a dry run, nothing by a job that fails, nothing of another job."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from airflow_backfill_provider.core.errors import (
    BackfillError,
    DatabaseRefusedError,
    JobNotCreatedError,
    StorageUnavailableError,
    UpstreamError,
)
from airflow_backfill_provider.jobs import beginnings, creation, mutations, strategy_tables
from airflow_backfill_provider.jobs.planning.plan import make_plan
from airflow_backfill_provider.sources.postgres.slot import ReplicationSlot
from airflow_backfill_provider.sources.shared.change_log.table import ChangeLog
from airflow_backfill_provider.state.store import BackfillStore
from tests.integration.postgres.shop import Shop
from tests.postgres_server import PostgresServer
from tests.variants import exhaustive

pytestmark = pytest.mark.spark

SLOTS = "SELECT slot_name FROM pg_replication_slots WHERE database = current_database()"
PUBLICATIONS = "SELECT pubname FROM pg_publication"
SLOT = "airflow_backfill_orders_view"


@pytest.fixture
def filled(shop: Shop) -> Shop:
    """A table with rows."""
    shop.run_sql("CREATE TABLE orders (id int PRIMARY KEY, name text)", "INSERT INTO orders VALUES (1, 'a'), (2, 'b')")
    return shop


def another(shop: Shop) -> Shop:
    """A job of the same name over the same database, with another folder."""
    return Shop(shop.spark, shop.folder / "another", shop.database)


def files(folder: Path) -> set[Path]:
    return set(folder.rglob("*"))


def assert_nothing_was_made(shop: Shop) -> None:
    assert (shop.table(SLOTS), shop.table(PUBLICATIONS)) == ([], [])
    assert files(shop.folder) == set()


def assert_equal(shop: Shop) -> None:
    assert shop.rows("id", "name") == shop.table("SELECT id, name FROM orders")


def cancel_uncreated(shop: Shop) -> None:
    backfill = shop.backfill
    beginnings.cancel_uncreated(backfill.job, backfill.store, backfill.upstream)


def test_a_dry_run_makes_nothing_and_refuses_what_creating_would(filled: Shop) -> None:
    """Neither a slot, which would keep the server's log, nor anything in the lake."""
    plan = make_plan(filled.define(**filled.of_database({})))
    assert (plan.created, plan.strategy) == (False, "cdc")
    assert_nothing_was_made(filled)
    filled.run_sql(f"CREATE PUBLICATION {SLOT} FOR TABLE orders WITH (publish = 'insert')")
    with pytest.raises(DatabaseRefusedError, match="leaves out operations"):
        make_plan(filled.backfill)
    assert files(filled.folder) == set()


class _Killed(BaseException):
    """Stands for the end of the process: nothing is cleaned up."""


def fail(error: BaseException) -> object:
    def raising(*_: object, **__: object) -> None:
        raise error

    return raising


@pytest.mark.parametrize(
    ("owner", "method"),
    [(BackfillStore, "create"), exhaustive(ReplicationSlot, "begin"), exhaustive(ChangeLog, "create")],
)
def test_creating_a_job_that_fails_leaves_nothing(
    filled: Shop, monkeypatch: pytest.MonkeyPatch, owner: type, method: str
) -> None:
    with monkeypatch.context() as failing:
        failing.setattr(owner, method, fail(StorageUnavailableError("the disk is full")))
        with pytest.raises(StorageUnavailableError):
            filled.create()
    assert_nothing_was_made(filled)
    filled.create()
    filled.finish()
    assert_equal(filled)


@pytest.mark.parametrize(
    ("owner", "method"),
    [(BackfillStore, "create"), exhaustive(ReplicationSlot, "begin"), exhaustive(ReplicationSlot, "ensure")],
)
def test_cancelling_a_job_that_a_killed_process_did_not_create_removes_what_it_left(
    filled: Shop, monkeypatch: pytest.MonkeyPatch, owner: type, method: str
) -> None:
    with monkeypatch.context() as killing:
        killing.setattr(owner, method, fail(_Killed()))
        killing.setattr(beginnings, "_undo", lambda *_: None)
        with pytest.raises(_Killed):
            filled.create()
    assert filled.table(PUBLICATIONS) == [(SLOT,)]
    other = another(filled)
    other.define(**other.of_database({}))
    with pytest.raises(JobNotCreatedError):
        cancel_uncreated(other)
    assert filled.table(PUBLICATIONS) == [(SLOT,)]
    cancel_uncreated(filled)
    assert_nothing_was_made(filled)
    with pytest.raises(JobNotCreatedError, match="has nothing to remove"):
        cancel_uncreated(filled)


@pytest.mark.exhaustive
def test_a_job_that_a_killed_process_did_not_create_can_be_created(
    filled: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as killing:
        killing.setattr(BackfillStore, "create", fail(_Killed()))
        killing.setattr(beginnings, "_undo", lambda *_: None)
        with pytest.raises(_Killed):
            filled.create()
    filled.create()
    filled.finish()
    assert_equal(filled)


@pytest.mark.exhaustive
def test_tables_that_cannot_be_made_leave_no_slot(filled: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """The settings stay; creating the job again begins anew."""
    with monkeypatch.context() as failing:
        failing.setattr(creation, "ensure_tables", fail(UpstreamError("no such key")))
        with pytest.raises(UpstreamError):
            filled.create()
    assert (filled.table(SLOTS), filled.table(PUBLICATIONS)) == ([], [])
    filled.run_sql("INSERT INTO orders VALUES (3, 'c')")
    filled.create()
    filled.finish()
    assert_equal(filled)


@pytest.mark.exhaustive
@pytest.mark.parametrize("value", ["NaN", "infinity"])
def test_a_key_that_no_position_can_hold_is_refused_before_anything_is_made(shop: Shop, value: str) -> None:
    kind = "numeric(10, 2)" if value == "NaN" else "date"
    other = "1" if value == "NaN" else "2026-01-01"
    shop.run_sql(f"CREATE TABLE orders (id {kind} PRIMARY KEY, name text)")
    shop.run_sql(f"INSERT INTO orders VALUES ('{other}', 'a'), ('{value}', 'b')")
    with pytest.raises(BackfillError):
        shop.create()
    assert_nothing_was_made(shop)


def test_two_jobs_of_one_name_do_not_take_each_others_slot(filled: Shop) -> None:
    """I6: neither the plan nor the creation of the second touches the first."""
    filled.create()
    filled.finish()
    other = another(filled)
    confirmed = filled.table("SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE database = current_database()")
    foreign = rf"slot {SLOT} belongs to the job with the change log {filled.folder}.*give this job another name"
    with pytest.raises(UpstreamError, match=foreign):
        make_plan(other.define(**other.of_database({})))
    with pytest.raises(UpstreamError, match=foreign):
        other.create()
    with pytest.raises(UpstreamError, match=foreign):
        other.create(postgres={"slot": SLOT})
    assert not (filled.folder / "another").exists()
    assert confirmed == filled.table(
        "SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE database = current_database()"
    )
    filled.run_sql("UPDATE orders SET name = 'changed' WHERE id = 1")
    filled.finish()
    assert_equal(filled)
    assert filled.backfill.status().alarms == ()
    mutations.cancel_job(store=filled.backfill.store, requested_by="tester")
    strategy_tables.clean_up_after_cancelling(filled.backfill.store)
    other.create()
    other.finish()
    assert_equal(other)


@pytest.mark.exhaustive
def test_a_slot_without_a_note_of_its_owner_is_refused_too(
    filled: Shop, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I6: as the how-to advises, the publication is made by the table's owner, and the login may not comment on it."""
    name, login = filled.database.info.dbname, f"few_{filled.database.info.dbname}"
    filled.run_sql(
        f"CREATE ROLE {login} LOGIN REPLICATION PASSWORD 'secret'",
        f"GRANT SELECT ON orders TO {login}",
        f"CREATE PUBLICATION {SLOT} FOR TABLE orders",
    )
    monkeypatch.setenv("AIRFLOW_CONN_SHOP_DB", postgres.uri(name, login, "secret"))
    filled.create()
    filled.finish()
    other = another(filled)
    with pytest.raises(UpstreamError, match=rf"slot {SLOT} exists, and the job with .* did not make it"):
        other.create()
    assert not (filled.folder / "another").exists()
    filled.rebuild_with()
    filled.run_sql("INSERT INTO orders VALUES (3, 'c')")
    filled.finish()
    assert_equal(filled)


@pytest.mark.exhaustive
def test_a_job_whose_folder_is_gone_may_begin_again(filled: Shop, spark: SparkSession) -> None:
    """The slot's owner is the folder, and that is the same one."""
    del spark
    filled.create()
    store = filled.backfill.store
    assert store.created()
    for path in sorted(files(filled.folder), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    filled.create()
    filled.finish()
    assert_equal(filled)
