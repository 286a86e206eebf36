"""
Translate Spark's errors into those of this package.

An error about rows is raised without Spark's error as its cause: a traceback would print that, and it quotes rows.
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
    UpstreamSchemaChangedError,
    VerificationFailedError,
    VersionGoneError,
)
from airflow_backfill_provider.engine.spark_words import condition_of_a_row, conditions, first_line, parameters, said
from airflow_backfill_provider.lake.storage import is_full, storage_full, storage_unavailable

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
"""The Java class of a cause, or of an error about a log, for which Spark has no condition."""

_DAMAGED = ("CANNOT_READ_FILE_FOOTER", "FAILED_READ_FILE")
_NO_ANSWER = re.compile(
    r"^(?:Caused by: |: |\()(?:java\.net\.|javax\.net\.|java\.nio\.file\.AccessDenied|"
    r"org\.apache\.hadoop\.(?:net\.|security\.|fs\.s3a\.(?:auth\.|AWS\w+Exception)|fs\.azurebfs\.)|"
    r"software\.amazon\.awssdk\.|com\.amazonaws\.|com\.google\.)",
    re.MULTILINE,
)
"""
The Java class of an error or a cause if a storage does not answer.

For a data file that cannot be read for this reason, Spark has the same condition as for a damaged file.
"""

_VIOLATED = (
    "CHECK_CONSTRAINT_VIOLATION",
    "DELTA_EXCEED_CHAR_VARCHAR_LIMIT",
    "DELTA_NOT_NULL_CONSTRAINT_VIOLATED",
    "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES",
    "EXCEED_LIMIT_LENGTH",
    "NOT_NULL_ASSERT_VIOLATION",
)
"""Conditions of a row that violates a bound of its table."""

_CONFLICT = ("DELTA_CONCURRENT_", "DELTA_METADATA_CHANGED", "DELTA_PROTOCOL_CHANGED")


def is_conflict(error: BaseException) -> bool:
    """Return whether Delta refused a commit because another one changed what this one had read."""
    return _is(error, _CONFLICT)


def is_duplicate_key(error: BaseException) -> bool:
    """Return whether an error means that the upstream inserted a key that already existed."""
    return _is(error, ("USER_RAISED_EXCEPTION",)) and DUPLICATE_KEY in str(error)


def _is(error: BaseException, names: tuple[str, ...]) -> bool:
    """Return whether one of an error's conditions is in a list, or begins like one in it."""
    return any(condition.startswith(names) for condition in conditions(error))


def _require_values(error: BaseException, what: str) -> None:
    """Raise an error if the query failed on a row."""
    if condition := condition_of_a_row(error):
        raise QueryFailedError(
            f"{what}: the query fails on a row of the upstream ({condition}); correct the row, or let the query say "
            "what such a row gives (try_cast, try_divide, a filter) and rebuild the job"
        ) from None


def _require_no_violation(error: BaseException, what: str) -> None:
    """Raise an error if a row of the query violates a bound that the view's owner has set."""
    if not _is(error, _VIOLATED):
        return
    name = parameters(error).get("constraintName")
    bound = f"the constraint {name}" if name else f"a bound of one of its columns ({conditions(error)[-1]})"
    drop = f"drop it (ALTER TABLE … DROP CONSTRAINT {name})" if name else "take the bound back, or rebuild the job"
    raise MaterializedViewError(
        f"{what}: a row that the query gives does not meet {bound} of the materialized view; {drop}"
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
            raise storage_unavailable(path, first_line(error)) from error
        raise MaterializedViewError(
            f"the materialized view's table at {path} cannot be written: {first_line(error)}"
        ) from error


def _require_own_tables(error: BaseException, what: str, tables: Mapping[str, str]) -> None:
    """Raise an error if a file of one of the strategy's tables cannot be read."""
    for name, location in tables.items():
        if f"/{location.rsplit('/', 1)[-1]}/" in str(error):
            raise StateError(
                f"{what} cannot read the {name} at {location} ({said(error)}); restore it from a copy, or rebuild the "
                "job"
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
        if is_duplicate_key(error):
            raise DuplicateKeyError(
                f"{what}: the upstream inserted a key that it has already; remove the duplicates"
            ) from None
        _require_no_violation(error, what)
        _require_values(error, what)
        if is_full(error):
            raise StorageUnavailableError(
                f"{what}: a disk is full ({said(error)}); nothing half written counts: make room, then try again"
            ) from None
        damaged = _is_damage(error)
        if damaged:
            _require_own_tables(error, what, tables or {})
        if _is_gone(error):
            raise ChangeFeedGapError(
                f"{what} needs data or changes of the upstream that are gone ({said(error)}); they were "
                "vacuumed, or the change data feed was off meanwhile. Rebuild the job, and run its epochs more often "
                "than delta.deletedFileRetentionDuration"
            ) from None
        if damaged:
            raise DataFileError(
                f"{what} cannot read a data file ({said(error)}); restore the file from a copy, or repair its "
                "table and rebuild the job"
            ) from None
        if _is(error, _DAMAGED):
            raise storage_unavailable(f"a data file that {what} reads", said(error)) from None
        if _is(error, ("DELTA_CHANGE_DATA_FEED_INCOMPATIBLE",)):
            raise UpstreamSchemaChangedError(
                f"{what} cannot read the upstream's changes across a column that changed its type "
                f"({said(error)}); rebuild the job. Delta could on a table with column mapping "
                "(delta.columnMapping.mode = name)"
            ) from None
        raise EpochFailedError(f"{what} failed: {said(error)}") from None


@contextmanager
def comparison_errors(what: str) -> Iterator[None]:
    """
    Translate the errors of reading one side of a comparison, which then counts as unknown, not as empty.

    :param what: table and version, for the message.
    """
    try:
        yield
    except BackfillError:
        raise
    except (PySparkException, Py4JError) as error:
        _require_values(error, what)
        if _is(error, _VERSION_GONE):
            raise VersionGoneError(
                f"{what} can no longer be read ({said(error)}); verify anew, which compares the versions that "
                "are there now"
            ) from None
        if _is_damage(error):
            raise DataFileError(
                f"{what} has a data file that is damaged or gone, so nothing is known of it ({said(error)}); "
                "verify anew if it was vacuumed meanwhile, else restore the file from a copy, or rebuild the job"
            ) from None
        raise VerificationFailedError(
            f"{what} could not be read, so nothing is known of it ({said(error)}); try again"
        ) from None
