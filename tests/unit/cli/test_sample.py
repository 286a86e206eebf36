"""The sample: a table with change feed, a job that can be planned, and changes of every kind when it runs again."""

from __future__ import annotations

from deltalake import DeltaTable
from typer.testing import CliRunner

from airflow_backfill_provider.cli.main import app
from airflow_backfill_provider.cli.sample import FIRST_ORDERS, MORE_ORDERS, job_file


def test_the_job_over_the_sample_can_be_planned_as_it_is(tmp_path):
    made = CliRunner().invoke(app, ["sample", str(tmp_path)])
    assert made.exit_code == 0
    plan = CliRunner().invoke(app, ["plan", str(job_file(tmp_path))])
    assert plan.exit_code == 0, plan.stderr
    assert DeltaTable(str(tmp_path / "orders")).to_pyarrow_table().num_rows == FIRST_ORDERS


def test_the_command_again_inserts_updates_and_deletes(tmp_path):
    CliRunner().invoke(app, ["sample", str(tmp_path)])
    for _ in range(3):
        again = CliRunner().invoke(app, ["sample", str(tmp_path)])
        assert again.exit_code == 0
        assert ", 0 " not in again.stdout
    orders = DeltaTable(str(tmp_path / "orders"))
    changes = orders.load_cdf(starting_version=1).read_all()["_change_type"].to_pylist()
    assert changes.count("insert") == 3 * MORE_ORDERS
    assert {"update_preimage", "update_postimage", "delete"} < set(changes)


def test_a_job_file_that_somebody_changed_stays(tmp_path):
    CliRunner().invoke(app, ["sample", str(tmp_path)])
    job_file(tmp_path).write_text("name: mine\n", encoding="utf-8")
    CliRunner().invoke(app, ["sample", str(tmp_path)])
    assert job_file(tmp_path).read_text(encoding="utf-8") == "name: mine\n"
