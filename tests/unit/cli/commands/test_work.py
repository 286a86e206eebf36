"""``create`` and ``rebuild``, and what they and ``plan`` refuse."""

from __future__ import annotations

import shutil

import pytest
from deltalake import write_deltalake

from airflow_backfill_provider.core.errors import MaterializedViewError
from tests.unit.cli.conftest import fails

pytestmark = pytest.mark.slow  # whole epochs through Delta tables


@pytest.mark.parametrize("command", ["plan", "create"])
class TestBadInput:
    def test_missing_table(self, job, command, upstream):
        shutil.rmtree(upstream)
        fails(job(command), "there is no Delta table at", str(upstream))

    def test_no_change_data_feed(self, job, command, tmp_path):
        import pyarrow as pa

        path = str(tmp_path / "plain")
        write_deltalake(path, pa.table({"order_id": [1]}))
        job.write(upstream={"path": path, "key": ["order_id"]})
        fails(job(command), "ALTER TABLE", "delta.enableChangeDataFeed")

    def test_missing_key_column(self, job, command, upstream):
        job.write(upstream={"path": str(upstream), "key": ["customer"]})
        fails(job(command), "upstream.key", "'customer'", "order_id, amount")

    def test_syntax_error(self, job, command):
        job.write(query="SELECT FROM WHERE")
        fails(job(command), "query")

    def test_aggregate(self, job, command):
        job.write(query="SELECT status, first(amount) AS amount FROM upstream GROUP BY status")
        fails(job(command), "query", "first")

    def test_unknown_field(self, job, command):
        job.write(rate_limt=5)
        fails(job(command), "rate_limt", "allowed are")

    def test_several_wrong_fields_are_one_line(self, job, command):
        job.write(vnode_count=0, rate_limit="fast")
        fails(job(command), "vnode_count", "rate_limit")

    def test_a_file_that_is_not_yaml(self, job, command):
        job.file.write_text("name: [\n  oops", encoding="utf-8")
        fails(job(command), str(job.file))

    def test_bounds_that_are_no_keys(self, job, command):
        job.write(restrict_to={"keys": {"after": ["soon"]}})
        fails(job(command), "restrict_to.keys.after", "'order_id' is not of type long")

    def test_task_runs_that_cannot_share_one_position(self, job, command):
        job.write(strategy="no_shuffle", parallelism=2)
        fails(job(command), "parallelism", "use strategy arrangement")

    def test_more_task_runs_than_vnodes(self, job, command):
        job.write(parallelism=5)
        fails(job(command), "parallelism", "allowed are 1 to 4")

    def test_nothing_is_written(self, job, command, tmp_path):
        job.write(query="SELECT count(*) FROM upstream")
        before = sorted(tmp_path.rglob("*"))
        fails(job(command))
        assert sorted(tmp_path.rglob("*")) == before


def test_what_the_engine_refuses(job, engine):
    engine.failures = [MaterializedViewError("there is another table\nat the path")]
    fails(job("create"), "another table at the path")


def test_create_twice(job, engine):
    assert "created, strategy no_shuffle" in job("create").stdout
    engine.starts = 0
    assert job("run").exit_code == 0
    engine.starts = 0
    result = job("create")
    assert result.exit_code == 0
    assert "was created already" in result.stdout
    assert engine.starts == 0


def test_create_with_another_definition(created):
    created.write(vnode_count=8)
    fails(created("create"), "another vnode_count", "rebuild")


def test_rebuild(created):
    assert created("run").exit_code == 0
    created.write(query="SELECT order_id FROM upstream")
    result = created("rebuild")
    assert result.exit_code == 0
    assert created.backfill.status().rows_read == 0
    assert created("run").exit_code == 0


def test_tables_are_named_in_the_file_and_found_when_the_job_is_created_or_rebuilt(job, engine, upstream, tmp_path):
    name, view = "prod.sales.orders", "prod.sales.small_orders"
    job.write(upstream={"table": name, "key": ["order_id"]}, materialized_view=view, state=str(tmp_path / "state"))
    fails(job("plan"), "create it first, or give upstream.path")
    fails(job("status"), "was not created yet")
    engine.catalog = {name: str(upstream), view: str(tmp_path / "lake" / "view")}
    assert "created" in job("create").stdout
    assert f"finished as of epoch 4: {view}" in job("run", "--until-finished").stdout
    assert job("status").exit_code == 0
    assert job("plan").exit_code == 0, "it is planned from what the settings say"
    engine.catalog = {name: str(shutil.copytree(upstream, tmp_path / "lake" / "elsewhere")), view: ""}
    assert job("create").exit_code == 0
    assert job.backfill.upstream.location == str(upstream), "a created job asks no catalog"
    assert job("rebuild").exit_code == 0
    assert job.backfill.upstream.location == str(tmp_path / "lake" / "elsewhere")
    assert job.backfill.settings().definition.view_location == str(tmp_path / "lake" / "view")
