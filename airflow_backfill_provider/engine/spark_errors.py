"""
Translates Spark's errors into those of this package.

An error about rows is raised without Spark's error as its cause, because a traceback would print it, and it quotes
rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, ParseException, PySparkException

from airflow_backfill_provider.core.errors import (
    BackfillError,
    ChangeFeedGapError,
    DatabaseUnavailableError,
    DataFileError,
    DuplicateKeyError,
    EpochFailedError,
    InvalidJobError,
    MaterializedViewError,
    QueryFailedError,
    StateError,
    StorageUnavailableError,
    UnsupportedValueError,
    UpstreamError,
    UpstreamSchemaChangedError,
    VerificationFailedError,
    VersionGoneError,
)
from airflow_backfill_provider.engine.spark_messages import (
    condition_of_a_row,
    conditions,
    first_line,
    has_lost_spark,
    parameters,
    safe_message,
)
from airflow_backfill_provider.lake.storage import is_full, storage_full, storage_unavailable
from airflow_backfill_provider.sources.refusals import (
    UNCHANGED_VALUE,
    UNREADABLE_LINE,
    UNREADABLE_RECORD,
    UNSUPPORTED_VALUE,
    UNUSABLE_KEY,
    UNUSABLE_ROW,
)

DUPLICATE_KEY = "AIRFLOW_BACKFILL_DUPLICATE_KEY"
"""The error that a merge raises if the upstream inserted a key that already existed."""

_VERSION_GONE = (
    "DELTA_LOG_FILE_NOT_FOUND",
    "DELTA_NO_RECREATABLE_HISTORY_FOUND",
    "DELTA_TIME_TRAVEL",
    "DELTA_TRUNCATED_TRANSACTION_LOG",
    "DELTA_UNSUPPORTED_TIME_TRAVEL",
    "DELTA_VERSION_INVALID",
    "DELTA_VERSION_NOT_FOUND",
)
_GONE = (
    *_VERSION_GONE,
    "DELTA_CHANGE_DATA_FILE_NOT_FOUND",
    "DELTA_CHANGE_TABLE_FEED_DISABLED",
    "DELTA_EXCEEDS_CDC_RETENTION",
    "DELTA_MISSING_CHANGE_DATA",
    "FAILED_READ_FILE.FILE_NOT_EXIST",
)
_NOT_FOUND = "FileNotFoundException"
"""The Java class of an error or a cause about a missing file, if Spark has no condition for it."""

_DAMAGED = ("CANNOT_READ_FILE_FOOTER", "FAILED_READ_FILE")
_NO_ANSWER = re.compile(
    r"^(?:Caused by: |: |\()(?:java\.net\.|javax\.net\.|java\.nio\.file\.AccessDenied|"
    r"org\.apache\.hadoop\.(?:net\.|security\.|fs\.s3a\.(?:auth\.|AWS\w+Exception)|fs\.azurebfs\.)|"
    r"software\.amazon\.awssdk\.|com\.amazonaws\.|com\.google\.)",
    re.MULTILINE,
)
"""
The Java class of an error or a cause if a storage does not answer.

Spark has the same condition for such a data file as for a damaged one.
"""

_RECORDS_LOST = re.compile(
    r"^(?:Caused by: |: |\()?org\.apache\.spark\.sql\.kafka010\.KafkaIllegalStateException\b", re.MULTILINE
)
"""The error of a read whose records were removed from a topic after it was planned; it may have a condition."""

_NO_INSTANT = re.compile(
    r"\[KAFKA_MALFORMED_RECORD_TIMESTAMP\] Record at topic (?P<topic>\S+) partition (?P<partition>\d+) "
    r"offset (?P<offset>\d+) has"
)
"""The error of a record whose timestamp overflows in microseconds; of the same class as a lost record."""

_DATABASE_LOST = re.compile(
    r"org\.postgresql\.util\.PSQLException: (?:An I/O error|FATAL|The connection|Connection |This connection)"
)
"""The error of a task whose connection to a database ended, or could not be made."""

_NO_TEXT = re.compile(
    r"org\.postgresql\.util\.PSQLException: ERROR: (?:character with byte sequence|invalid byte sequence for encoding)"
)
"""The error of a database that cannot convert a text to Unicode."""

_VIOLATED = (
    "CHECK_CONSTRAINT_VIOLATION",
    "DELTA_EXCEED_CHAR_VARCHAR_LIMIT",
    "DELTA_NOT_NULL_CONSTRAINT_VIOLATED",
    "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES",
    "EXCEED_LIMIT_LENGTH",
    "NOT_NULL_ASSERT_VIOLATION",
)
"""Conditions of a row that violates a constraint of its table."""

_KINDS = f"{UNCHANGED_VALUE}|{UNREADABLE_LINE}|{UNREADABLE_RECORD}|{UNSUPPORTED_VALUE}|{UNUSABLE_KEY}|{UNUSABLE_ROW}"

_OF_VALUE = re.compile(
    rf"\[USER_RAISED_EXCEPTION\] (?P<kind>{_KINDS}) (?P<about>[^\n]+?)(?: SQLSTATE.*)?$", re.MULTILINE
)
"""
The error about a value or a row that cannot be read, with the column's name or what is wrong.

It begins with Spark's condition: other errors quote whole plans, in which the same words stand.
"""

_CONFLICT = ("DELTA_CONCURRENT_", "DELTA_METADATA_CHANGED", "DELTA_PROTOCOL_CHANGED")


def is_conflict(error: BaseException) -> bool:
    """Return whether Delta refused a commit because of a conflict with another one."""
    return _is(error, _CONFLICT)


def is_duplicate_key(error: BaseException) -> bool:
    """Return whether an error means that the upstream inserted a key that already existed."""
    return _is(error, ("USER_RAISED_EXCEPTION",)) and DUPLICATE_KEY in str(error)


def _raise_for_lost_spark(error: BaseException, what: str) -> None:
    """Raise the error for a process of Spark that ended, if it did."""
    if has_lost_spark(error):
        raise EpochFailedError(
            f"{what} failed: Spark's process ended, maybe for lack of memory; nothing is lost. Give it more memory "
            "(spark.driver.memory) if this happens again"
        ) from None


def _raise_for_value(error: BaseException, what: str) -> None:
    """Raise the error for a value or a row of the upstream that cannot be read, if there is one."""
    found = _OF_VALUE.search(str(error))
    if found is None:
        return
    name = found["about"]
    if found["kind"] == UNUSABLE_ROW:
        raise UpstreamError(f"{what}: {name}; correct the rows of the upstream, and rebuild the job") from None
    if found["kind"] == UNUSABLE_KEY:
        raise UnsupportedValueError(
            f"{what}: a row has a key in column {name} that is infinite, NaN, or in a year before 1 or after 9999, and "
            "such keys are not ordered alike everywhere; correct or delete the row in the database, and run the next "
            "epoch"
        ) from None
    if found["kind"] == UNREADABLE_LINE:
        raise UnsupportedValueError(
            f"{what}: {name}; correct the file, or correct upstream.files.schema and rebuild the job, or rebuild it "
            "with unreadable_records: dead_letter, which leaves such records out of the view and lists them"
        ) from None
    if found["kind"] == UNREADABLE_RECORD:
        raise UnsupportedValueError(
            f"{what}: {name}; correct the format and rebuild the job, or rebuild it with unreadable_records: "
            "dead_letter, which leaves such records out of the view and lists them"
        ) from None
    if found["kind"] == UNCHANGED_VALUE:
        raise UpstreamError(
            f"{what}: an update did not change column {name}, and the database's log left its value out because it is "
            "long (TOAST); run: ALTER TABLE … REPLICA IDENTITY FULL, and rebuild the job"
        ) from None
    raise UnsupportedValueError(
        f"{what}: a value of column {name} has no counterpart in the column's type, such as infinity or NaN; correct "
        "the row and run the next epoch, or read the column as text (as_text) and rebuild the job"
    ) from None


def _is(error: BaseException, names: tuple[str, ...]) -> bool:
    """Return whether one of an error's conditions begins with one of the names."""
    return any(condition.startswith(names) for condition in conditions(error))


def _raise_for_row(error: BaseException, what: str) -> None:
    """Raise the error for a query that failed on a row, if it did."""
    if condition := condition_of_a_row(error):
        raise QueryFailedError(
            f"{what}: the query fails on a row of the upstream ({condition}); correct the row, or handle such rows in "
            "the query (try_cast, try_divide, a filter) and rebuild the job"
        ) from None


def _raise_for_database(error: BaseException, what: str) -> None:
    """Raise the error of a database over whose connection rows are read, if there is one."""
    if _NO_TEXT.search(str(error)):
        raise UnsupportedValueError(
            f"{what}: a text in the table has bytes without a counterpart in Unicode; correct the row and run the next "
            "epoch, or leave its column out of the query and rebuild the job"
        ) from None
    if _DATABASE_LOST.search(str(error)):
        raise DatabaseUnavailableError(
            f"{what}: the database ended a connection over which rows were read; nothing is lost, try again"
        ) from None


def are_records_lost(error: BaseException) -> bool:
    """Return whether a read failed because records of a topic were removed after it was planned."""
    if _is(error, ("KAFKA_DATA_LOSS",)):
        return True
    return _RECORDS_LOST.search(str(error)) is not None and _NO_INSTANT.search(str(error)) is None


def _raise_for_instant(error: BaseException, what: str) -> None:
    """Raise the error for a record whose timestamp Spark cannot read, whatever the query uses, if there is one."""
    if found := _NO_INSTANT.search(str(error)):
        raise UnsupportedValueError(
            f"{what}: {found['topic']}, partition {found['partition']}, offset {found['offset']}: the timestamp lies "
            "beyond what Spark can read; its producer took another unit than milliseconds. Remove the records up to it "
            "from the topic (kafka-delete-records), and rebuild the job, which begins with those that are left"
        ) from None


def _raise_for_lost_records(error: BaseException, what: str) -> None:
    """Raise the error for records that are gone, if some are; Spark has a state of failing expressions for it."""
    if are_records_lost(error):
        raise ChangeFeedGapError(
            f"{what} needs records of the upstream that are gone ({safe_message(error)}): the topic's retention or "
            "somebody removed them after the epoch was pinned"
        ) from None


def _raise_for_violation(error: BaseException, what: str) -> None:
    """Raise the error for a row that violates a constraint on the view, if one does."""
    if not _is(error, _VIOLATED):
        return
    name = parameters(error).get("constraintName")
    constraint = f"the constraint {name}" if name else f"a constraint on a column ({conditions(error)[-1]})"
    drop = f"drop it (ALTER TABLE … DROP CONSTRAINT {name})" if name else "remove the constraint, or rebuild the job"
    raise MaterializedViewError(
        f"{what}: a row of the query violates {constraint} of the materialized view; {drop}"
    ) from None


def _is_gone(error: BaseException) -> bool:
    """Return whether an error means that a version, changes or a file are gone."""
    return _is(error, _GONE) or _NOT_FOUND in str(error)


def _is_damage(error: BaseException) -> bool:
    """Return whether an error means that a data file is gone or damaged."""
    return _is_gone(error) or (_is(error, _DAMAGED) and not _NO_ANSWER.search(str(error)))


@contextmanager
def query_errors() -> Iterator[None]:
    """Translate Spark's errors of analysing the job's query."""
    try:
        yield
    except ParseException as error:
        raise InvalidJobError(f"query: syntax error: {first_line(error)}") from error
    except AnalysisException as error:
        raise InvalidJobError(f"query: {first_line(error)}") from error


@contextmanager
def view_errors(path: str) -> Iterator[None]:
    """Translate the errors of creating the view's table."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        if is_full(error):
            raise storage_full(path) from error
        if _NO_ANSWER.search(str(error)):
            raise storage_unavailable(path, first_line(error), cause=error) from error
        raise MaterializedViewError(
            f"the materialized view's table at {path} cannot be created: {first_line(error)}"
        ) from error


def _raise_for_own_tables(error: BaseException, what: str, tables: Mapping[str, str]) -> None:
    """Raise the error for a damaged table of the strategy, if the error is about one."""
    for name, location in tables.items():
        if f"/{location.rsplit('/', 1)[-1]}/" in str(error):
            raise StateError(
                f"{what} cannot read the {name} at {location} ({safe_message(error)}); restore it from a copy, or "
                "rebuild the job"
            ) from None


@contextmanager
def epoch_errors(what: str, *, tables: Mapping[str, str] | None = None) -> Iterator[None]:
    """
    Translate the errors of an epoch's reads and writes.

    :param what: the name of the epoch, for the message.
    :param tables: the strategy's tables: name → location.
    """
    try:
        yield
    except BackfillError:
        raise
    except (PySparkException, Py4JError) as error:
        _raise_for_lost_spark(error, what)
        if is_duplicate_key(error):
            raise DuplicateKeyError(
                f"{what}: the upstream inserted a key that it already has; remove the duplicate rows from the upstream"
            ) from None
        _raise_for_value(error, what)
        _raise_for_violation(error, what)
        _raise_for_instant(error, what)
        _raise_for_lost_records(error, what)
        _raise_for_row(error, what)
        _raise_for_database(error, what)
        if is_full(error):
            raise StorageUnavailableError(
                f"{what}: a disk is full ({safe_message(error)}); make room, then try again"
            ) from None
        damaged = _is_damage(error)
        if damaged:
            _raise_for_own_tables(error, what, tables or {})
        if _is_gone(error):
            raise ChangeFeedGapError(
                f"{what} needs data or changes of the upstream that are gone ({safe_message(error)}); they were "
                "vacuumed, or the change data feed was off for some time. Rebuild the job, and run an epoch at least "
                "once per delta.deletedFileRetentionDuration"
            ) from None
        if damaged:
            raise DataFileError(
                f"{what} cannot read a data file ({safe_message(error)}); restore the file from a copy, or repair its "
                "table and rebuild the job"
            ) from None
        if _is(error, _DAMAGED):
            raise storage_unavailable(f"a data file that {what} reads", safe_message(error), cause=error) from None
        if _is(error, ("DELTA_CHANGE_DATA_FEED_INCOMPATIBLE",)):
            raise UpstreamSchemaChangedError(
                f"{what} cannot read the upstream's changes across a column that changed its type "
                f"({safe_message(error)}); rebuild the job. Delta can read them from a table with column mapping "
                "(delta.columnMapping.mode = name)"
            ) from None
        raise EpochFailedError(f"{what} failed: {safe_message(error)}") from None


@contextmanager
def comparison_errors(what: str) -> Iterator[None]:
    """
    Translate the errors of reading one side of a comparison; the side then counts as unknown, not as empty.

    :param what: table and version, for the message.
    """
    try:
        yield
    except BackfillError:
        raise
    except (PySparkException, Py4JError) as error:
        if has_lost_spark(error):
            raise VerificationFailedError(f"{what} cannot be compared: Spark's process ended; try again") from None
        _raise_for_value(error, what)
        _raise_for_instant(error, what)
        if not are_records_lost(error):
            _raise_for_row(error, what)
        if _is(error, _VERSION_GONE):
            raise VersionGoneError(
                f"{what} can no longer be read ({safe_message(error)}); start a new verification, which compares the "
                "newest versions"
            ) from None
        if _is_damage(error):
            raise DataFileError(
                f"{what} cannot be compared: a data file is damaged or gone ({safe_message(error)}); if it was "
                "vacuumed, start a new verification; otherwise restore the file from a copy, or rebuild the job"
            ) from None
        raise VerificationFailedError(
            f"{what} cannot be compared, because reading it failed ({safe_message(error)}); try again"
        ) from None
