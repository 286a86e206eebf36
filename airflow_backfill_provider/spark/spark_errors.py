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
    DataFileError,
    DuplicateKeyError,
    EpochFailedError,
    InvalidJobError,
    MaterializedViewError,
    QueryFailedError,
    StateError,
    StorageUnavailableError,
    UnsupportedValueError,
    UpstreamSchemaChangedError,
    VerificationFailedError,
    VersionGoneError,
)
from airflow_backfill_provider.lake.store.storage import is_full, storage_full, storage_unavailable
from airflow_backfill_provider.sources import explained, refusals
from airflow_backfill_provider.sources.spark_failures import SparkFailure
from airflow_backfill_provider.spark.spark_messages import (
    condition_of_a_row,
    conditions,
    first_line,
    has_lost_spark,
    parameters,
    safe_message,
)

_PHASE_OF_A_QUERY = re.compile(r"The Spark SQL phase (analysis|optimization|planning) failed with an internal error")
"""What Spark says if a part of it that works on a query's plan fails by a bug."""

DUPLICATE_KEY = "AIRFLOW_BACKFILL_DUPLICATE_KEY"
"""The error that a merge raises if the upstream inserted a key that already existed."""

EMPTY_PARTITION = "AIRFLOW_BACKFILL_EMPTY_PARTITION"
"""The error of a write of an empty text into a partition column."""

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

_VIOLATED = (
    "CHECK_CONSTRAINT_VIOLATION",
    "DELTA_EXCEED_CHAR_VARCHAR_LIMIT",
    "DELTA_NOT_NULL_CONSTRAINT_VIOLATED",
    "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES",
    "EXCEED_LIMIT_LENGTH",
    "NOT_NULL_ASSERT_VIOLATION",
)
"""Conditions of a row that violates a constraint of its table."""

_OF_VALUE = r"\[USER_RAISED_EXCEPTION\] (?P<name>{names}) (?P<about>[^\n]+?)(?: SQLSTATE.*)?$"
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


def _raise_for_partition(error: BaseException, what: str) -> None:
    """Raise the error for a row that no partition can hold, if there is one."""
    if _is(error, ("USER_RAISED_EXCEPTION",)) and EMPTY_PARTITION in str(error):
        raise MaterializedViewError(
            f"{what}: a row of the query has an empty text in a column of partition_by, and Delta would store null in "
            "place of it; select nullif(…, '') or another text for it, or choose other partitions, and rebuild the job"
        ) from None


def _raise_for_lost_spark(error: BaseException, what: str) -> None:
    """Raise the error for a process of Spark that ended, if it did."""
    if has_lost_spark(error):
        raise EpochFailedError(
            f"{what} failed: Spark's process ended, maybe for lack of memory; nothing is lost. Give it more memory "
            "(spark.driver.memory) if this happens again"
        ) from None


def _raise_for_value(error: BaseException, what: str) -> None:
    """Raise the error for a value or a row of the upstream that cannot be read, if there is one."""
    known = {refusal.name: refusal for refusal in refusals()}
    found = re.search(_OF_VALUE.format(names="|".join(map(re.escape, known))), str(error), re.MULTILINE)
    if found is not None:
        raise known[found["name"]].error(what, found["about"]) from None


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


def source_error(error: BaseException, what: str) -> BackfillError | None:
    """Return the error for users, if only a kind of source knows what an error of Spark means."""
    failure = SparkFailure(
        text=str(error),
        conditions=tuple(conditions(error)),
        shown=safe_message(error),
        is_of_a_row=bool(condition_of_a_row(error)),
    )
    return explained(failure, what)


def _raise_for_source(error: BaseException, what: str) -> None:
    """Raise the error that only a kind of source knows, if it is one; Spark may take it for one of a row."""
    if found := source_error(error, what):
        raise found from None


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
    except (PySparkException, Py4JError) as error:
        if not (failed := _PHASE_OF_A_QUERY.search(str(error))):
            raise
        # Rows play no part yet, so a retry fails in the same way.
        raise InvalidJobError(
            f"query: Spark fails on it with an internal error of its own, in its {failed[1]}; write it in another way "
            "(leave out one expression after the other to find what Spark fails on)"
        ) from error


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
        _raise_for_partition(error, what)
        _raise_for_value(error, what)
        _raise_for_violation(error, what)
        _raise_for_source(error, what)
        _raise_for_row(error, what)
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
        known = source_error(error, what)
        if isinstance(known, UnsupportedValueError):
            raise known from None
        if known is None:
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
