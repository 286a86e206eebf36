"""What Spark's errors mean to a user."""

from __future__ import annotations

import re
import traceback

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkException
from pyspark.errors.exceptions.connect import SparkConnectGrpcException

from airflow_backfill_provider.core.errors import (
    BackfillError,
    ChangeFeedGapError,
    DatabaseUnavailableError,
    DataFileError,
    EpochFailedError,
    InvalidJobError,
    MaterializedViewError,
    QueryFailedError,
    StorageUnavailableError,
    UnsupportedValueError,
    UpstreamError,
    VerificationFailedError,
    VersionGoneError,
)
from airflow_backfill_provider.spark.spark_errors import (
    comparison_errors,
    epoch_errors,
    is_conflict,
    query_errors,
    view_errors,
)
from airflow_backfill_provider.spark.spark_messages import safe_message


def spark_error(text: str, **parameters: str) -> PySparkException:
    """Return an error as Spark raises it: it has the condition and the state that its text names."""
    condition, state = re.search(r"\[([\w.]+)\]", text), re.search(r"SQLSTATE: (\w+)", text)
    return SparkConnectGrpcException(
        text, condition and condition[1], parameters, sql_state=None if state is None else state[1]
    )


REFUSED = """<_InactiveRpcError of RPC that terminated with:
\tstatus = StatusCode.UNAVAILABLE
\tdetails = "failed to connect to all addresses; last error: Connection refused"
\tdebug_error_string = "UNAVAILABLE:failed to connect"
>"""


def test_a_lost_server_is_a_retryable_error_of_one_line():
    said = r"^epoch 3 failed: the Spark Connect server did not answer: failed to connect to all addresses"
    with pytest.raises(EpochFailedError, match=said), epoch_errors("epoch 3"):
        raise PySparkException(REFUSED)
    assert EpochFailedError.retryable


@pytest.mark.parametrize("phase", ["analysis", "optimization", "planning"])
def test_a_query_on_which_spark_itself_fails_is_refused(phase: str):
    """A retry fails again: Spark 4.2 cannot analyse ``nullif(count_if(a), count_if(a))``."""
    text = f"[INTERNAL_ERROR] The Spark SQL phase {phase} failed with an internal error. SQLSTATE: XX000"
    for error in (spark_error(text), Py4JError(f"An error occurred while calling o81.sql.\n: SparkException: {text}")):
        with (
            pytest.raises(InvalidJobError, match="query: Spark fails on it with an internal error.*; write"),
            query_errors(),
        ):
            raise error
    with pytest.raises(PySparkException, match="no query"), query_errors():
        raise PySparkException("[INTERNAL_ERROR] this concerns no query")


class EndedProcessError(Py4JError):
    """An error whose text is in a process that has ended."""

    def __init__(self, problem: Exception) -> None:
        super().__init__("unknown")
        self.problem = problem

    def __str__(self) -> str:
        raise self.problem


@pytest.mark.parametrize(
    "error",
    [
        Py4JNetworkError("Answer from Java side is empty"),
        EndedProcessError(Py4JNetworkError("Answer from Java side is empty")),
        EndedProcessError(ConnectionRefusedError(111, "Connection refused")),
    ],
)
def test_a_process_of_spark_that_ended_is_a_retryable_error_of_one_line(error: Py4JError) -> None:
    """Nobody can ask it any more what the error was; it may have had too little memory."""
    with (
        pytest.raises(EpochFailedError, match=r"^epoch 3 failed: Spark's process ended.*spark\.driver\.memory"),
        epoch_errors("epoch 3"),
    ):
        raise error
    with (
        pytest.raises(VerificationFailedError, match=r"^the view cannot be compared: Spark's process ended"),
        comparison_errors("the view"),
    ):
        raise error


QUOTED = "[UNRESOLVED_COLUMN] no column `__filled_a`.`b`: raise_error(AIRFLOW_BACKFILL_UNCHANGED_VALUE a.b)"


def test_an_error_that_only_quotes_the_plan_is_not_about_a_value() -> None:
    """The same words stand in each plan that may raise them."""
    with pytest.raises(EpochFailedError), epoch_errors("epoch 3"):
        raise spark_error(QUOTED)
    raised = "[USER_RAISED_EXCEPTION] AIRFLOW_BACKFILL_UNCHANGED_VALUE a.b SQLSTATE: P0001"
    with pytest.raises(UpstreamError, match=r"did not change column a\.b, "), epoch_errors("epoch 3"):
        raise spark_error(raised)


@pytest.mark.parametrize("problem", ["character with byte sequence 0x81", "invalid byte sequence for encoding"])
def test_a_text_that_a_database_cannot_convert_is_named(problem: str) -> None:
    text = f"org.postgresql.util.PSQLException: ERROR: {problem} secret"
    with (
        pytest.raises(UnsupportedValueError, match="bytes without a counterpart in Unicode") as refused,
        epoch_errors("epoch 3"),
    ):
        raise spark_error(text)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    "said",
    [
        "An I/O error occurred while sending to the backend.",
        "FATAL: terminating connection due to administrator command",
        "Connection to db:5432 refused. Check that the hostname and port are correct.",
    ],
)
def test_a_database_that_ends_a_connection_is_a_retryable_error_of_one_line(said):
    text = f"Job aborted due to stage failure: Task 1 failed: org.postgresql.util.PSQLException: {said}\n\tat x"
    ended = "^epoch 3: the database ended a connection .* nothing is lost, try again$"
    with pytest.raises(DatabaseUnavailableError, match=ended), epoch_errors("epoch 3"):
        raise PySparkException(text)
    assert DatabaseUnavailableError.retryable


@pytest.mark.parametrize(
    "text",
    [
        "[TASK_WRITE_FAILED] A task failed. SQLSTATE: 58030\nCaused by: org.apache.spark.sql.kafka010."
        "KafkaIllegalStateException: Some data may have been lost because they are not available in Kafka any more;",
        "[KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE] Some data may have been lost SQLSTATE: 22000",
    ],
    ids=["while writing", "while counting"],
)
def test_records_that_retention_removed_before_they_were_read_are_a_gap(text):
    """I6: it is no row of the query that fails, and no retry helps."""
    gone = "^epoch 3 needs records of the upstream that are gone .* after the epoch was pinned$"
    with pytest.raises(ChangeFeedGapError, match=gone) as caught, epoch_errors("epoch 3"):
        raise PySparkException(text)
    assert not caught.value.retryable
    with pytest.raises(VerificationFailedError, match="try again"), comparison_errors("the query at offset 9"):
        raise PySparkException(text)


@pytest.mark.parametrize("translate", [epoch_errors, comparison_errors])
def test_a_record_with_a_timestamp_that_spark_cannot_read_is_named(translate):
    """I6: its class is that of lost records, and no retention has removed it."""
    text = (
        "[TASK_WRITE_FAILED] A task failed. SQLSTATE: 58030\nCaused by: org.apache.spark.sql.kafka010."
        "KafkaIllegalStateException: [KAFKA_MALFORMED_RECORD_TIMESTAMP] Record at topic my.orders partition 3 "
        "offset 17 has timestamp value 1767225600000000000 that overflows SQLSTATE: 22008"
    )
    said = r"^epoch 3: my\.orders, partition 3, offset 17: the timestamp lies beyond what .*rebuild the job"
    with pytest.raises(UnsupportedValueError, match=said) as caught, translate("epoch 3"):
        raise PySparkException(text)
    assert "1767225600000000000" not in str(caught.value)


@pytest.mark.parametrize("translate", [epoch_errors, comparison_errors])
def test_a_value_that_the_source_refuses_is_named_wherever_it_is_read(translate):
    """A verification said that the query fails on a row, and to change the query."""
    text = "[USER_RAISED_EXCEPTION] AIRFLOW_BACKFILL_UNSUPPORTED_VALUE my price SQLSTATE: P0001"
    with pytest.raises(UnsupportedValueError, match="a value of column my price has no"), translate("epoch 3"):
        raise PySparkException(text)


NOT_SHOWN = "the message may quote rows, so only Spark's log has it"


@pytest.mark.parametrize("translate", [epoch_errors, comparison_errors])
def test_a_traceback_shows_no_more_than_the_error(translate):
    """Airflow's log of a task prints what an error was raised from."""
    with pytest.raises(BackfillError) as caught, translate("epoch 3"):
        raise PySparkException("[X] secret SQLSTATE: 23001")
    assert "secret" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("translate", [epoch_errors, comparison_errors])
def test_a_row_that_the_query_fails_on_is_not_quoted_and_not_retried(translate):
    text = (
        "[TASK_WRITE_FAILED] A task failed. SQLSTATE: 58030\nCaused by: [CAST_INVALID_INPUT] The value "
        '\'4111 1111\' of the type "STRING" cannot be cast to "INT". SQLSTATE: 22018\n== SQL (line 1, position 8) =='
    )
    with (
        pytest.raises(QueryFailedError, match=r"^epoch 3: the query fails on a row .*\(CAST_INVALID_INPUT\)") as caught,
        translate("epoch 3"),
    ):
        raise PySparkException(text)
    assert "4111" not in str(caught.value)
    assert not caught.value.retryable


@pytest.mark.parametrize(
    ("text", "conflict"),
    [
        ("[DELTA_CONCURRENT_DELETE_READ.WITHOUT_HINT] Transaction conflict detected.", True),
        ("[DELTA_CONCURRENT_APPEND] Files were added", True),
        ("(io.delta.exceptions.ConcurrentTransactionException) [DELTA_CONCURRENT_TRANSACTION] It ran twice.", True),
        ("[DELTA_METADATA_CHANGED] The metadata of the table has changed.", True),
        ("[DIVIDE_BY_ZERO] Division by zero", False),
        ("", False),
    ],
)
def test_a_commit_conflict_is_known_by_its_error(text, conflict):
    assert is_conflict(spark_error(text)) is conflict
    assert is_conflict(PySparkException(text)) is conflict


@pytest.mark.parametrize(
    ("text", "parameters", "told"),
    [
        (
            "[DELTA_VIOLATE_CONSTRAINT_WITH_VALUES] CHECK constraint positive (id > 0) violated by row with values:\n"
            " - id : secret. SQLSTATE: 23001",
            {"constraintName": "positive", "expression": "id > 0", "values": "secret"},
            "the constraint positive of the materialized view; drop it (ALTER TABLE … DROP CONSTRAINT positive)",
        ),
        (
            "[DELTA_NOT_NULL_CONSTRAINT_VIOLATED] NOT NULL constraint violated for column: secret. SQLSTATE: 23502",
            {"columnName": "secret"},
            "a constraint on a column (DELTA_NOT_NULL_CONSTRAINT_VIOLATED)",
        ),
        (
            "[EXCEED_LIMIT_LENGTH] Exceeds char/varchar type length limitation: secret. SQLSTATE: 54006",
            {},
            "remove the constraint, or rebuild the job",
        ),
        (
            '[DELTA_EXCEED_CHAR_VARCHAR_LIMIT] Value "secret" exceeds char/varchar type length limitation. '
            "SQLSTATE: 22001",
            {"value": "secret"},
            "a constraint on a column (DELTA_EXCEED_CHAR_VARCHAR_LIMIT)",
        ),
    ],
)
def test_a_row_that_violates_a_constraint_of_the_view_is_not_quoted(text, parameters, told):
    """The view's owner added the constraint, and a retry does not help."""
    with pytest.raises(MaterializedViewError) as caught, epoch_errors("epoch 3 of job orders"):
        raise spark_error(text, **parameters)
    assert told in str(caught.value)
    assert "secret" not in str(caught.value)


NO_ANSWER = """[FAILED_READ_FILE.NO_HINT] Encountered error while reading file s3a://lake/x.parquet. SQLSTATE: KD001
\tat org.apache.spark.sql.errors.QueryExecutionErrors$.cannotReadFilesError(QueryExecutionErrors.scala:940)
Caused by: java.net.SocketTimeoutException: open s3a://lake/x.parquet: Read timed out
"""


@pytest.mark.parametrize(
    ("cause", "error"),
    [
        ("java.net.SocketTimeoutException: Read timed out", StorageUnavailableError),
        ("javax.net.ssl.SSLException: Connection reset", StorageUnavailableError),
        ("java.nio.file.AccessDeniedException: s3a://lake/x.parquet: 403", StorageUnavailableError),
        ("org.apache.hadoop.fs.s3a.AWSServiceThrottledException: 503", StorageUnavailableError),
        ("org.apache.hadoop.fs.s3a.auth.NoAuthWithAWSException: no credentials", StorageUnavailableError),
        ("org.apache.hadoop.security.AccessControlException: Permission denied", StorageUnavailableError),
        ("software.amazon.awssdk.core.exception.SdkClientException: timeout", StorageUnavailableError),
        ("java.io.EOFException: Reached the end of stream with 9 bytes left to read", DataFileError),
        ("org.apache.parquet.io.ParquetDecodingException: no page header", DataFileError),
        ("java.io.FileNotFoundException: No such file or directory: s3a://lake/x.parquet", ChangeFeedGapError),
    ],
)
def test_a_storage_that_does_not_answer_spark_is_a_retryable_error(cause, error):
    """Nothing is damaged then."""
    text = NO_ANSWER.replace("java.net.SocketTimeoutException: open s3a://lake/x.parquet: Read timed out", cause)
    with (
        pytest.raises(error) as caught,
        epoch_errors("epoch 3 of job orders", tables={"arrangement": "s3a://lake/arrangement_1"}),
    ):
        raise PySparkException(text)
    assert caught.value.retryable is (error is StorageUnavailableError)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (
            "An error occurred while calling o9.sql.\n: java.nio.file.AccessDeniedException: s3a://lake/view: 403",
            StorageUnavailableError,
        ),
        ("(java.net.SocketTimeoutException) Read timed out", StorageUnavailableError),
        ("[DELTA_CREATE_TABLE_SCHEME_MISMATCH] (java.net.) is in the text", MaterializedViewError),
    ],
)
def test_a_view_that_the_storage_refuses_for_now_is_a_retryable_error(text, error):
    with pytest.raises(error, match="s3a://lake/view") as caught, view_errors("s3a://lake/view"):
        raise PySparkException(text)
    assert caught.value.retryable is (error is StorageUnavailableError)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("[DELTA_VERSION_NOT_FOUND] Cannot time travel Delta table to version 900.", VersionGoneError),
        ("[DELTA_UNSUPPORTED_TIME_TRAVEL_BEYOND_DELETED_FILE_RETENTION_DURATION] Too old.", VersionGoneError),
        ("[FAILED_READ_FILE.FILE_NOT_EXIST] Encountered error while reading file x.parquet.", DataFileError),
        ("[FAILED_READ_FILE.NO_HINT] Encountered error while reading file x.parquet.", DataFileError),
        ("java.io.FileNotFoundException: File x.parquet does not exist", DataFileError),
        ("[DIVIDE_BY_ZERO] Division by zero.", VerificationFailedError),
        (NO_ANSWER, VerificationFailedError),
    ],
)
def test_rows_that_cannot_be_compared_are_an_error_of_their_side(text, error):
    """I6: it is neither equal nor different."""
    with pytest.raises(error, match="^the view at version 9 "), comparison_errors("the view at version 9"):
        raise PySparkException(text)


def test_the_condition_of_an_error_counts_and_not_its_text():
    """A row may contain any text."""
    text = "[USER_RAISED_EXCEPTION] [DELTA_VERSION_NOT_FOUND] SQLSTATE: 58030"
    raised = SparkConnectGrpcException(text, "USER_RAISED_EXCEPTION", {}, sql_state="P0001")
    with pytest.raises(QueryFailedError), comparison_errors("the view at version 9"):
        raise raised
    assert safe_message(raised) == f"[USER_RAISED_EXCEPTION]: {NOT_SHOWN}"


def test_the_cause_of_a_condition_is_read_from_the_text():
    text = (
        "[TASK_WRITE_FAILED] A task failed. SQLSTATE: 58030\nCaused by: [CAST_INVALID_INPUT] 'secret' SQLSTATE: 22018"
    )
    raised = spark_error(text)
    with pytest.raises(QueryFailedError, match="CAST_INVALID_INPUT"), epoch_errors("epoch 3"):
        raise raised
    assert safe_message(raised) == f"[TASK_WRITE_FAILED], caused by [CAST_INVALID_INPUT]: {NOT_SHOWN}"
