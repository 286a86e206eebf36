"""What an application does beside its epochs: the requested verification, and what a star follows."""

from __future__ import annotations

from contextlib import nullcontext

import pyarrow as pa
import pytest

from airflow_backfill_provider import protocol
from airflow_backfill_provider.applications import spark_application as application
from airflow_backfill_provider.applications.spark_settings import STORAGE_OPTIONS_VARIABLE
from airflow_backfill_provider.core.errors import EpochFailedError, InvalidJobError, VersionGoneError
from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.core.job.requester import Requester
from airflow_backfill_provider.jobs.backfill import Backfill
from airflow_backfill_provider.jobs.verification import verifier
from tests.builders import Orders, job_of, write_table
from tests.plain_engine import CountingEngine, make

pytestmark = pytest.mark.slow  # whole epochs through Delta tables


class VersionlessEngine(CountingEngine):
    """Raises an error about a missing version whenever it compares."""

    def compare(self, *arguments):
        raise VersionGoneError("version 0 can no longer be read")


@pytest.fixture
def asked(lake):
    """A job over three orders, with a requested verification."""
    Orders(lake).add(*range(3))
    backfill = Backfill(job_of(lake))
    make(backfill)
    verifier.ask_for_verification(backfill, requested_by="vera")
    return backfill


def run(backfill, engine):
    barrier = protocol.inject_barrier(
        store=backfill.store, upstream=backfill.upstream, requester=Requester(user="tester")
    ).barrier
    application.run_epochs(lambda *_: engine, {}, state=backfill.job.state, epoch=barrier.epoch)
    assert backfill.store.commit_of(barrier.epoch) is not None


def test_a_requested_verification_runs_after_the_epoch(asked, capsys):
    run(asked, CountingEngine([["7"]]))
    found = verifier.newest_result(asked)
    assert (found.equal, found.pinned.epoch, str(found.pinned.begun_by)) == (False, 1, "vera")
    assert "paid_orders as of epoch 1, upstream offset 0: 10 rows expected, 1 missing" in capsys.readouterr().err


def test_it_runs_in_the_step_of_a_shared_epoch_that_commits(asked):
    """The epochs of a finished view have no part."""
    run(asked, CountingEngine())
    write_table(
        asked.job.upstream.location, {"id": pa.array([7]), "status": pa.array(["paid"]), "amount": pa.array([1])}
    )
    verifier.ask_for_verification(asked, requested_by="vera")
    barrier = protocol.inject_barrier(
        store=asked.store, upstream=asked.upstream, requester=Requester(user="tester")
    ).barrier
    assert not barrier.parts
    application.apply_changes(lambda *_: CountingEngine(), {}, state=asked.job.state, epoch=barrier.epoch)
    assert verifier.newest_result(asked).pinned.epoch == barrier.epoch


def test_a_verification_that_fails_leaves_the_epoch_committed(asked, capsys):
    run(asked, VersionlessEngine())
    assert "the requested verification failed: version 0" in capsys.readouterr().err


def test_a_column_that_a_star_follows_is_asked_for_after_the_epoch(lake, capsys):
    orders = Orders(lake)
    orders.add(*range(3))
    backfill = Backfill(job_of(lake, query="SELECT * FROM upstream", star="follow"))
    make(backfill)
    run(backfill, CountingEngine())
    protocol.finish_job(store=backfill.store, requested_by="tester")
    assert "came to the upstream" not in capsys.readouterr().err
    row = {"id": pa.array([7]), "status": pa.array(["paid"]), "amount": pa.array([1]), "note": pa.array(["new"])}
    write_table(orders.path, row, schema_mode="merge")
    run(backfill, CountingEngine())
    assert "note came to the upstream; the next epoch writes the whole view with it" in capsys.readouterr().err
    assert backfill.store.settings().requested_by == "star: follow"


@pytest.mark.parametrize(
    ("error", "code"),
    [(None, 0), (EpochFailedError("the network\nis gone"), 1), (InvalidJobError("query: no\nsuch column"), 3)],
)
def test_the_exit_code_says_whether_another_try_may_help_and_the_last_line_why(monkeypatch, capsys, error, code):
    """The submitter relies on them; nothing else comes back from a cluster."""
    told = []

    def act(*given, **arguments):
        told.append((given, arguments))
        if error is not None:
            raise error

    monkeypatch.delenv("SPARK_REMOTE", raising=False)
    monkeypatch.setenv(STORAGE_OPTIONS_VARIABLE, '{"AWS_REGION": "eu-central-1"}')
    monkeypatch.setattr(application, "_submitted", lambda: nullcontext("engine"))
    assert application.run_application(act, state="/lake/state") == code
    assert told == [(("engine", {"AWS_REGION": "eu-central-1"}), {"state": "/lake/state"})]
    said = [line for line in capsys.readouterr().err.splitlines() if line.startswith("airflow-backfill: error: ")]
    assert said == ([] if error is None else [f"airflow-backfill: error: {' '.join(str(error).splitlines())}"])


def test_tables_that_a_job_names_are_found_by_the_application_that_creates_it(lake):
    """The worker submits the names, and reads the locations from the settings afterwards."""
    Orders(lake).add(*range(3))
    named = job_of(lake, upstream={"table": "prod.sales.orders", "key": ["id"]}).model_dump(mode="json")
    engines = []

    def engine(*_):
        engines.append(CountingEngine(catalog={"prod.sales.orders": f"{lake}/orders"}))
        return engines[-1]

    application.create(engine, {}, definition=named, requested_by="vera")
    assert len(engines) == 1, "one Spark looks the names up and creates the tables"
    assert Backfill(BackfillJob(**named)).upstream.location == f"{lake}/orders"
    application.create(engine, {}, definition=named, requested_by="vera")
    assert len(engines) == 1
    application.rebuild(engine, {}, definition=named, requested_by="vera")
    assert len(engines) == 2
