"""How commands fail: exit code 1 and one line, or exit code 2 for wrong usage."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest
from deltalake import write_deltalake
from pyspark.errors import PySparkException
from typer.testing import CliRunner

from airflow_backfill_provider.cli.main import app
from airflow_backfill_provider.core.errors import MaterializedViewError
from airflow_backfill_provider.runtime.spark_settings import STORAGE_OPTIONS_VARIABLE


def fails(result, *texts: str) -> None:
    assert result.exit_code == 1
    assert result.stderr.startswith("airflow-backfill: error: ")
    assert result.stderr.count("\n") == 1
    assert "Traceback" not in result.output
    for text in texts:
        assert text in result.stderr


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
        job.write(query="SELECT count(*) FROM upstream")
        fails(job(command), "query", "aggregate")

    def test_unknown_field(self, job, command):
        job.write(rate_limt=5)
        fails(job(command), "rate_limt", "allowed are")

    def test_several_wrong_fields_are_one_line(self, job, command):
        job.write(vnode_count=0, rate_limit="fast")
        fails(job(command), "vnode_count", "rate_limit")

    def test_no_yaml(self, job, command):
        job.file.write_text("name: [\n  oops", encoding="utf-8")
        fails(job(command), str(job.file))

    def test_bounds_that_are_no_keys(self, job, command):
        job.write(restrict_to={"keys": {"after": ["soon"]}})
        fails(job(command), "restrict_to.keys.after", "'order_id' is not of type long")

    def test_runs_that_cannot_share_one_position(self, job, command):
        job.write(strategy="no_shuffle", parallelism=2)
        fails(job(command), "parallelism", "use strategy arrangement")

    def test_more_runs_than_vnodes(self, job, command):
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


def test_an_unexpected_error_is_one_line_too(job, engine):
    engine.failures = [RuntimeError("\nsomething\nlong")]
    fails(job("create"), "RuntimeError: something (--debug shows where)")


def test_an_unexpected_error_of_spark_is_not_quoted(job, engine):
    """Errors hold no data."""
    engine.failures = [PySparkException("[CAST_INVALID_INPUT] The value 'secret' cannot be cast. SQLSTATE: 22018")]
    result = job("create")
    fails(result, "PySparkException (--debug shows where; Spark's message may quote rows)")
    assert "secret" not in result.output


def test_debug_shows_the_traceback(job, engine):
    engine.failures = [RuntimeError("boom")]
    result = job("create", "--debug")
    assert result.exit_code == 1
    assert "Traceback" in result.output


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


@pytest.mark.slow
def test_rebuild(created):
    assert created("run").exit_code == 0
    created.write(query="SELECT order_id FROM upstream")
    result = created("rebuild")
    assert result.exit_code == 0
    assert created.backfill.status().rows_read == 0
    assert created("run").exit_code == 0


def test_verify_before_the_first_epoch_starts_no_spark(created, engine):
    fails(created("verify"), "nothing to verify")
    assert engine.starts == 0


def test_bad_storage_options(job, monkeypatch):
    monkeypatch.setenv(STORAGE_OPTIONS_VARIABLE, "[secret")
    result = job("plan")
    fails(result, STORAGE_OPTIONS_VARIABLE)
    assert "[secret" not in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        ["run"],
        ["status", "/does/not/exist.yaml"],
        ["run", "{job}", "--max-epochs", "0"],
        ["run", "{job}", "--conf", "novalue"],
        ["throttle", "{job}"],
        ["plan", "{job}", "--nope"],
    ],
)
def test_wrong_usage(created, arguments):
    result = CliRunner().invoke(app, [argument.format(job=created.file) for argument in arguments])
    assert result.exit_code == 2


@pytest.mark.slow
def test_version_and_help():
    assert CliRunner().invoke(app, ["--version"]).stdout.startswith("airflow-backfill 0.")
    help_text = CliRunner().invoke(app, ["--help"]).stdout
    for command in "plan create run status watch pause resume throttle rescale verify cancel rebuild".split():
        assert command in help_text
        assert CliRunner().invoke(app, [command, "--help"]).exit_code == 0


@pytest.mark.slow
def test_commands_without_spark_import_neither_spark_nor_airflow(created):
    program = (
        "import sys\n"
        "from airflow_backfill_provider.cli.main import main\n"
        "for command, *values in (['status'], ['plan'], ['throttle', '7']):\n"
        "    sys.argv[:] = ['airflow-backfill', command, JOB, *values]\n"
        "    try: main()\n"
        "    except SystemExit as end: print(command, end.code, file=sys.stderr)\n"
        "print(*sorted({'pyspark', 'airflow'} & set(sys.modules)), 'imported', file=sys.stderr)\n"
    )
    command = [sys.executable, "-c", f"JOB = {str(created.file)!r}\n{program}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr.splitlines() == ["status 0", "plan 0", "throttle 0", "imported"]


def test_a_storage_option_that_spark_could_not_use_is_refused_before_spark_starts(created, engine, monkeypatch):
    monkeypatch.setenv(STORAGE_OPTIONS_VARIABLE, '{"AZURE_STORAGE_TOKEN": "very-secret"}')
    result = created("run")
    fails(result, "AZURE_STORAGE_TOKEN has no counterpart")
    assert "very-secret" not in result.output
    assert engine.starts == 0
