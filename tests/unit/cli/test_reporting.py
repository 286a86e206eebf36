"""How a command ends: its exit code, and one line that says why."""

from __future__ import annotations

import logging
import sys

import pytest
import typer
from pyspark.errors import PySparkException

from airflow_backfill_provider.cli.reporting import _describe, reporting
from airflow_backfill_provider.core.errors import BackfillError
from tests.unit.cli.conftest import fails


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


@pytest.mark.parametrize(("raised", "code"), [(KeyboardInterrupt, 130), (ValueError, 1), (BackfillError("no"), 1)])
def test_an_interrupted_command_fails_with_one_line(raised, code, capsys):
    @reporting
    def command():
        raise raised

    with pytest.raises(typer.Exit) as end:
        command()
    assert end.value.exit_code == code
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("end", [typer.Exit(7), typer.Abort(), typer.BadParameter("no")])
def test_a_command_may_choose_its_exit_code(end):
    @reporting
    def command():
        raise end

    with pytest.raises(type(end)) as raised:
        command()
    assert raised.value is end


def test_output_after_a_closed_pipe_is_discarded(tmp_path, monkeypatch):
    """At its end, Python would complain that it cannot flush the rest."""
    with (tmp_path / "output").open("w", encoding="utf-8") as output:
        monkeypatch.setattr(sys, "stdout", output)

        @reporting
        def command():
            raise BrokenPipeError

        with pytest.raises(typer.Exit) as end:
            command()
        output.write("what is left")
    assert (end.value.exit_code, (tmp_path / "output").read_text(encoding="utf-8")) == (1, "")


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError("\n\n first \nsecond"), "ValueError:  first  (--debug shows where)"),
        (ValueError(""), "ValueError: no message (--debug shows where)"),
        (BackfillError("whole\ntext"), "whole text"),
    ],
)
def test_the_first_line_of_an_error_says_what_happened(error, line):
    assert _describe(error) == line


def test_only_log_lines_of_this_package_are_printed(capsys):
    """Py4J, for one, logs every interrupted call with its stack."""

    @reporting
    def command():
        logging.getLogger("airflow_backfill_provider.spark").info("waiting for another driver")
        logging.getLogger("py4j").error("a stack")

    command()
    assert "airflow-backfill: waiting for another driver" in capsys.readouterr().err.splitlines()
