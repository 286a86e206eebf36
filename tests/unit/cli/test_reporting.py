"""How a command ends: its exit code, and one line that says why."""

from __future__ import annotations

import subprocess
import sys

import pytest
from pyspark.errors import PySparkException


def fails(result, *texts: str) -> None:
    assert result.exit_code == 1
    assert result.stderr.startswith("airflow-backfill: error: ")
    assert result.stderr.count("\n") == 1
    assert "Traceback" not in result.output
    for text in texts:
        assert text in result.stderr


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


@pytest.mark.parametrize(("raised", "code"), [("BrokenPipeError", 1), ("KeyboardInterrupt", 130), ("ValueError", 1)])
def test_a_command_that_was_cut_off_did_not_do_what_was_asked(raised, code):
    """In a process of its own, for what is left of the output goes nowhere."""
    program = (
        "import sys, typer\n"
        "from airflow_backfill_provider.cli.reporting import reporting\n"
        "@reporting\n"
        "def command():\n"
        f"    raise {raised}\n"
        "try: command()\n"
        "except typer.Exit as end: sys.exit(end.exit_code + 50)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, "Traceback" in done.stderr) == (code + 50, False)
