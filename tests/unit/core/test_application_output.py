"""What is kept of an application's output: never a row."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.application import signal_note
from airflow_backfill_provider.core.application_output import SAID_LINES, ApplicationOutput

ROW = "alice@example.com"
WHERE = "its output is in /logs/a.log on worker-7"


def output_of(*lines: str) -> ApplicationOutput:
    output = ApplicationOutput("/logs/a.log on worker-7")
    for line in lines:
        output.read(f"{line}\n")
    return output


def test_messages_to_the_submitter_are_kept_and_returned():
    output = ApplicationOutput("")
    assert output.read("INFO Spark starts\n") is None
    assert output.read("airflow-backfill: spark: app-7 http://driver:4040\n") is None
    assert output.read("airflow-backfill: epoch 1 ends\n") == "epoch 1 ends"
    assert (output.said, output.application_id) == (("epoch 1 ends",), "app-7")
    assert output.web_url == "http://driver:4040"


def test_an_application_may_have_no_pages():
    output = output_of("airflow-backfill: spark: app-7")
    assert (output.application_id, output.web_url) == ("app-7", None)


def test_the_newest_messages_are_kept():
    output = output_of(*(f"airflow-backfill: {number}" for number in range(SAID_LINES + 5)))
    assert output.said == tuple(str(number) for number in range(5, SAID_LINES + 5))


@pytest.mark.parametrize("line", [f"26/11/28 ERROR {ROW}airflow-backfill: error: x", f" airflow-backfill: {ROW}"])
def test_a_message_begins_its_line_because_a_row_may_quote_one(line):
    output = output_of(line)
    assert (output.said, output.application_id) == ((), None)
    assert output.reason(1) == f"the application ended with exit code 1; {WHERE}"


@pytest.mark.parametrize(
    ("code", "lines", "reason"),
    [
        (0, ["airflow-backfill: error: retried, and went well"], ""),
        (1, ["noise", "airflow-backfill: error: no such key", "more noise"], "no such key"),
        (1, ["airflow-backfill: error: first", "airflow-backfill: error: last"], "last"),
        (7, ["one", "two"], f"the application ended with exit code 7; {WHERE}"),
        (137, [], f"the application ended with exit code 137; {WHERE}{signal_note(137)}"),
        (-9, [], f"the application ended with exit code -9; {WHERE}{signal_note(-9)}"),
        (-15, [], f"the application ended with exit code -15; {WHERE}; a signal ended it (SIGTERM)"),
        (None, [], f"the application ended without an exit code; {WHERE}"),
    ],
)
def test_a_failure_says_why_or_where_the_output_is(code, lines, reason):
    assert output_of(*lines).reason(code) == reason


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("java.lang.OutOfMemoryError: Java heap space", "java.lang.OutOfMemoryError"),
        ('Exception in thread "main" java.lang.OutOfMemoryError: x', "java.lang.OutOfMemoryError"),
        ("Terminating due to java.lang.OutOfMemoryError: x", "java.lang.OutOfMemoryError"),
        (
            f"Caused by: org.apache.spark.SparkArithmeticException: [DIVIDE_BY_ZERO] {ROW}",
            "org.apache.spark.SparkArithmeticException [DIVIDE_BY_ZERO]",
        ),
        (
            f"pyspark.errors.exceptions.captured.NumberFormatException: [CAST_INVALID_INPUT.X] '{ROW}'",
            "pyspark.errors.exceptions.captured.NumberFormatException [CAST_INVALID_INPUT.X]",
        ),
        (f"java.lang.RuntimeException: [ALICE] {ROW}", "java.lang.RuntimeException"),
        (f"KeyError: '{ROW}'", "KeyError"),
        ("MemoryError", "MemoryError"),
    ],
)
def test_an_error_in_the_output_is_named_without_its_message(line, name):
    reason = output_of(f"row {ROW}", line, f"\tat {ROW}").reason(1)
    assert reason == f"the application ended with exit code 1 ({name}); {WHERE}"


@pytest.mark.parametrize(
    "line",
    [
        ROW,
        f"WARN Executor: java.lang.RuntimeException: {ROW}",
        f"{ROW}: java.lang.RuntimeException",
        "AliceException: hello",
        "com.alice.SecretException: hello",
        "[ALICE_IS_ILL] Error",
        f"Traceback {ROW}",
        "a." * 20_000 + "Error",
        "",
    ],
)
def test_no_other_word_of_the_output_is_shown(line):
    assert output_of(line).reason(1) == f"the application ended with exit code 1; {WHERE}"


def test_the_last_errors_are_named_each_once():
    lines = [f"{name}: {ROW}" for name in ("KeyError", "OSError", "TypeError", "OSError", "ValueError")]
    assert "(TypeError, then OSError, then ValueError)" in output_of(*lines).reason(1)
