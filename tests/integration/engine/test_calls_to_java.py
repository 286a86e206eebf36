"""How often PySpark asks Java to build a plan: an epoch builds thousands of columns, and each call takes time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from airflow_backfill_provider.spark.session import pin_settings, prepare_session

pytestmark = pytest.mark.spark

_LOOKS_UP_A_CLASS, _LETS_GO = "r\nu\n", "m\nd\n"
"""How commands begin that ask for a class, and that say that an object is no longer needed."""


@pytest.fixture(autouse=True)
def session(spark: SparkSession) -> SparkSession:
    return prepare_session(spark)


@contextmanager
def commands(monkeypatch: pytest.MonkeyPatch, spark: SparkSession) -> Iterator[list[str]]:
    """Give the commands that this process sends to Java, but those of its garbage collector."""
    client = spark._jvm._gateway_client
    sent: list[str] = []
    send = client.send_command

    def noted(command: str, *arguments: object, **named: object) -> object:
        # Python's garbage collector decides when these are sent.
        if not command.startswith(_LETS_GO):
            sent.append(command)
        return send(command, *arguments, **named)

    with monkeypatch.context() as patched:
        patched.setattr(client, "send_command", noted)
        yield sent


@pytest.mark.parametrize(
    ("build", "most"),
    [
        pytest.param(lambda: F.col("a"), 2, id="column"),
        pytest.param(lambda: F.lit(1), 2, id="literal"),
        pytest.param(lambda: F.coalesce(F.col("a"), F.col("b")), 11, id="function of several"),
    ],
)
def test_a_column_takes_few_calls(
    session: SparkSession, monkeypatch: pytest.MonkeyPatch, build: Callable[[], Column], most: int
) -> None:
    build()
    with commands(monkeypatch, session) as sent:
        build()
    assert not [command for command in sent if command.startswith(_LOOKS_UP_A_CLASS)]
    assert len(sent) <= most


def test_an_error_looks_up_no_class(session: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = session.range(1)
    with commands(monkeypatch, session) as sent, pytest.raises(AnalysisException, match="UNRESOLVED_COLUMN"):
        rows.select("nothing")
    assert sent
    assert not [command for command in sent if command.startswith(_LOOKS_UP_A_CLASS)]


def test_pinned_settings_are_read_with_few_calls(session: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    with commands(monkeypatch, session) as sent:
        pin_settings(session)
    assert len(sent) <= 10
