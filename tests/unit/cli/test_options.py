"""What is written on the command line, read as values; nothing secret may stand there."""

from __future__ import annotations

import subprocess
import sys

import pytest
import typer

from airflow_backfill_provider.cli import runner
from airflow_backfill_provider.cli.options import key_of, rate_limit_of, spark_conf
from airflow_backfill_provider.cli.output import console
from airflow_backfill_provider.cli.runner import Runner
from airflow_backfill_provider.cli.views import LineView
from airflow_backfill_provider.core.errors import EpochFailedError
from airflow_backfill_provider.core.requester import Requester
from airflow_backfill_provider.protocol.backfill import Backfill
from tests.builders import job_of


@pytest.mark.parametrize(("written", "limit"), [("none", None), ("None", None), ("NONE", None), ("0", 0), ("007", 7)])
def test_a_rate_limit_is_a_number_of_rows_or_none(written, limit):
    assert rate_limit_of(written) == limit


@pytest.mark.parametrize(
    ("written", "key"), [("1.10", "1.10"), ("[1.10, 7]", ["1.10", 7]), (' ["a"]', ["a"]), ("a[1]", "a[1]"), ("", "")]
)
def test_a_key_keeps_its_digits(written, key):
    """A decimal that went through a float would be another key."""
    assert key_of(written) == key


def test_a_setting_ends_where_its_first_equals_sign_is():
    written = ["spark.a=x=y", " spark.b = z", "spark.c="]
    assert spark_conf(written) == {"spark.a": "x=y", "spark.b": " z", "spark.c": ""}
    for wrong in ("spark.a", "=x", "  =x"):
        with pytest.raises(typer.BadParameter, match="is not KEY=VALUE"):
            spark_conf([wrong])


@pytest.mark.parametrize("secret", ["token=very-secret", "x-api-key=very-secret"])
def test_a_secret_of_a_server_is_refused_on_the_command_line_and_taken_from_the_environment(
    created, engine, monkeypatch, secret
):
    """Everybody on the machine can read a command line."""
    address = f"sc://spark.example:15002/;{secret}"
    result = created("run", "--master", address)
    assert (result.exit_code, engine.starts) == (2, 0)
    assert "SPARK_REMOTE" in result.stderr
    assert "very-secret" not in result.output

    assert created("run", "--master", "sc://spark.example:15002").exit_code == 0
    monkeypatch.setenv("SPARK_REMOTE", address)
    assert created("run").exit_code == 0


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


def test_each_wait_before_another_try_is_longer_than_the_one_before(monkeypatch):
    monkeypatch.setattr(runner, "RETRY_SECONDS", 2.0)
    waits: list[float] = []
    trying = Runner(
        backfill=Backfill(job_of()),
        engine=lambda: pytest.fail("no engine is needed"),
        requester=Requester(user="vera"),
        view=LineView(console()),
        sleep=waits.append,
    )

    def fail() -> str:
        raise EpochFailedError("the network")

    with pytest.raises(EpochFailedError):
        trying._retrying(fail)
    assert waits == [2.0, 4.0]
