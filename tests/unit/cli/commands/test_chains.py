"""Commands on a job whose upstream is the view of another job: they wait for it by name."""

from __future__ import annotations

import json

import pytest
from deltalake import DeltaTable

from airflow_backfill_provider.lake.tables.view_identity import (
    FINISHED_PROPERTY,
    INCARNATION_PROPERTY,
    JOB_PROPERTY,
    STATE_PROPERTY,
)
from tests.unit.cli.conftest import append, fails, job_in

pytestmark = pytest.mark.slow  # whole epochs through Delta tables

WAITS = "waits for paid_orders, 30 %"


def be_view_of(first, table, *, finished, **changes):
    """Let a table say that it is the view of a job."""
    settings = first.backfill.settings()
    said = {
        JOB_PROPERTY: settings.job["name"],
        INCARNATION_PROPERTY: settings.incarnation,
        STATE_PROPERTY: first.backfill.job.state,
        FINISHED_PROPERTY: "true" if finished else "false",
    }
    DeltaTable(table).alter.set_table_properties({**said, **changes}, raise_if_not_exists=False)


@pytest.fixture
def first(tmp_path, upstream):
    """A job that has read 300 of 1,000 rows."""
    job = job_in(tmp_path, name="paid_orders", materialized_view=str(tmp_path / "lake" / "paid_orders"))
    assert job("create").exit_code == 0
    assert job("run").exit_code == 0
    return job


@pytest.fixture
def second(tmp_path, first):
    """A job over the first one's view, which is not finished."""
    folder = tmp_path / "second"
    append(folder / "lake" / "orders", list(range(10)))
    be_view_of(first, folder / "lake" / "orders", finished=False)
    return job_in(folder)


def finish(first, second):
    be_view_of(first, second.definition["upstream"]["path"], finished=True)


@pytest.mark.parametrize("command", ["plan", "create"])
def test_an_unfinished_upstream_is_waited_for_before_anything_is_written(second, command, engine, tmp_path):
    """I6, and I7: a chain reads only versions of a finished view."""
    engine.starts = 0
    before = sorted(tmp_path.rglob("*"))
    fails(second(command), WAITS, "finish that job first")
    assert sorted(tmp_path.rglob("*")) == before
    assert engine.starts == 0


def test_a_created_job_waits_while_its_upstream_is_rebuilt_and_goes_on_afterwards(first, second, engine):
    finish(first, second)
    assert second("create").exit_code == 0
    be_view_of(first, second.definition["upstream"]["path"], finished=False)
    engine.starts = 0
    for command in (["run"], ["run", "--until-finished"], ["plan"], ["rebuild"]):
        fails(second(*command), WAITS)
    assert engine.starts == 0
    assert WAITS in second("create").stdout, "what is done already is not refused"
    finish(first, second)
    assert second("run", "--until-finished").exit_code == 0


def test_an_epoch_that_was_pinned_on_a_finished_view_is_completed(first, second, engine):
    """The window's versions stay whole, whatever happens to the view afterwards."""
    finish(first, second)
    assert second("create").exit_code == 0
    engine.failures = [RuntimeError("killed")]
    assert second("run").exit_code == 1
    be_view_of(first, second.definition["upstream"]["path"], finished=False)
    assert second("run").exit_code == 0
    fails(second("run"), WAITS)


def test_the_status_has_the_chain_and_whom_the_job_waits_for(first, second):
    finish(first, second)
    assert second("create").exit_code == 0
    seen = json.loads(second("status", "--json").stdout)
    assert seen["waits_for"] is None
    assert [(job["name"], job["finished"], job["progress"]) for job in seen["chain"]] == [("paid_orders", True, 1.0)]
    assert "chain" in second("status").stdout
    assert "paid_orders" in second("status").stdout
    be_view_of(first, second.definition["upstream"]["path"], finished=False)
    seen = json.loads(second("status", "--json").stdout)
    assert seen["waits_for"] == WAITS
    assert WAITS in seen["warnings"]
    assert seen["chain"][0]["state"] == first.backfill.job.state
    assert WAITS in second("status").stdout


def test_a_job_whose_control_tables_are_not_found_is_waited_for_without_a_percentage(first, second, tmp_path):
    upstream = second.definition["upstream"]["path"]
    be_view_of(first, upstream, finished=False, **{STATE_PROPERTY: str(tmp_path / "moved")})
    refused = second("create")
    fails(refused, "waits for paid_orders: ")


def test_control_tables_are_found_beside_a_view_that_does_not_name_them(tmp_path, upstream, second):
    """A view of an older package does not, and tables may have been moved together."""
    beside = job_in(tmp_path, name="paid_orders", materialized_view=str(tmp_path / "second" / "lake" / "other"))
    assert beside("create").exit_code == 0
    be_view_of(beside, second.definition["upstream"]["path"], finished=False, **{STATE_PROPERTY: "/nowhere"})
    fails(second("create"), "waits for paid_orders, 0 %")


def test_control_tables_outside_of_what_the_deployment_allows_are_not_read(second, monkeypatch):
    """A view may be another team's, and name any place."""
    allowed = [str(second.file.parent)]
    monkeypatch.setenv("AIRFLOW_BACKFILL_ALLOWED_ROOTS", json.dumps(allowed))
    fails(second("create"), "waits for paid_orders: ")
