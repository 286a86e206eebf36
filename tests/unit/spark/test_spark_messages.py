"""Which parts of an error of Spark are repeated."""

from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException, PySparkException

from airflow_backfill_provider.spark.spark_messages import first_line, safe_message


def test_the_first_line_is_without_stack_and_state():
    text = "\n[SOME_CLASS] It went wrong. SQLSTATE: 42K0A; line 1 pos 7;\nJVM stacktrace:\n\tat x"

    assert first_line(PySparkException(text)) == "[SOME_CLASS] It went wrong."


def test_an_error_from_py4j_is_repeated_without_its_frame():
    text = (
        "An error occurred while calling o7.sql.\n: io.delta.Conflict: [DELTA_X] It conflicts. SQLSTATE: 0AKDC\n\tat x"
    )

    assert (
        safe_message(RuntimeError(text))
        == first_line(RuntimeError(text))
        == "io.delta.Conflict: [DELTA_X] It conflicts."
    )


NOT_SHOWN = "the message may quote rows, so only Spark's log has it"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            '[DELTA_EXCEEDS_CHAR_VARCHAR_LIMIT] Value "secret" exceeds char/varchar type length. SQLSTATE: 22001',
            f"[DELTA_EXCEEDS_CHAR_VARCHAR_LIMIT]: {NOT_SHOWN}",
        ),
        (
            "[DELTA_VIOLATE_CONSTRAINT_WITH_VALUES] CHECK constraint violated by row with values: secret. "
            "SQLSTATE: 23001",
            f"[DELTA_VIOLATE_CONSTRAINT_WITH_VALUES]: {NOT_SHOWN}",
        ),
        ("[USER_RAISED_EXCEPTION] secret SQLSTATE: P0001", f"[USER_RAISED_EXCEPTION]: {NOT_SHOWN}"),
        # Text in a row does not count.
        ("[USER_RAISED_EXCEPTION] [SECRET] SQLSTATE: 58030 SQLSTATE: P0001", f"[USER_RAISED_EXCEPTION]: {NOT_SHOWN}"),
        ("[NO_STATE] secret", f"[NO_STATE]: {NOT_SHOWN}"),
        ("[INVALID_FORMAT.MISMATCH_INPUT] secret SQLSTATE: 42601", f"[INVALID_FORMAT.MISMATCH_INPUT]: {NOT_SHOWN}"),
        (
            "java.time.format.DateTimeParseException: Text 'secret'",
            f"java.time.format.DateTimeParseException: {NOT_SHOWN}",
        ),
        ("(java.lang.RuntimeException) secret", f"java.lang.RuntimeException: {NOT_SHOWN}"),
        ("secret", f"PySparkException: {NOT_SHOWN}"),
        (
            "Job aborted due to stage failure: Task 0 failed: org.apache.spark.SparkException: [TASK_WRITE_FAILED] A "
            "task failed. SQLSTATE: 58030 Caused by: [CAST_INVALID_INPUT] 'secret' SQLSTATE: 22018",
            f"[TASK_WRITE_FAILED], caused by [CAST_INVALID_INPUT]: {NOT_SHOWN}",
        ),
        (
            "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file x.parquet. SQLSTATE: KD001\nsecret",
            "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file x.parquet.",
        ),
        ("java.net.SocketTimeoutException: Read timed out\nsecret", "java.net.SocketTimeoutException: Read timed out"),
    ],
)
def test_only_errors_that_cannot_quote_a_row_are_repeated(text, expected):
    """Errors hold no data."""
    assert safe_message(PySparkException(text)) == expected


def test_an_analysis_error_is_repeated():
    text = "[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column `x` cannot be resolved. SQLSTATE: 42703; line 1 pos 7"
    assert (
        safe_message(AnalysisException(text)) == "[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column `x` cannot be resolved."
    )
    text = "[DELTA_REPLACE_WHERE_MISMATCH] Invalid data would be written: secret. SQLSTATE: 44000"
    assert safe_message(AnalysisException(text)) == f"[DELTA_REPLACE_WHERE_MISMATCH]: {NOT_SHOWN}"
