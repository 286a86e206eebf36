"""
What Spark's errors mean to a user of this package.

What fails on rows is raised without Spark's error behind it: a traceback would print that, and it quotes rows.
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
from airflow_backfill_provider.engine.spark_words import condition_of_a_row, first_line, said
from airflow_backfill_provider.lake.storage import is_full, storage_full, storage_unavailable

DUPLICATE_KEY = "AIRFLOW_BACKFILL_DUPLICATE_KEY"
"""What a merge raises when the upstream inserted a key that it had already."""

_GONE = re.compile(
    r"FileNotFound|FILE_NOT_EXIST|DELTA_MISSING_CHANGE_DATA|DELTA_CHANGE_DATA_FILE_NOT_FOUND|"
    r"DELTA_CHANGE_TABLE_FEED_DISABLED|DELTA_VERSION_NOT_FOUND|DELTA_VERSION_INVALID|DELTA_LOG_FILE_NOT_FOUND|"
    r"DELTA_TRUNCATED_TRANSACTION_LOG|DELTA_EXCEEDS_CDC_RETENTION|"
    r"DELTA_TIME_TRAVEL|DELTA_UNSUPPORTED_TIME_TRAVEL"
)
_DAMAGED = re.compile(r"FAILED_READ_FILE|CANNOT_READ_FILE_FOOTER|is not a Parquet file|ParquetDecodingException")
_NO_ANSWER = re.compile(
    r"^(?:Caused by: |: |\()(?:java\.net\.|javax\.net\.|java\.nio\.file\.AccessDenied|"
    r"org\.apache\.hadoop\.(?:net\.|security\.|fs\.s3a\.(?:auth\.|AWS\w+Exception)|fs\.azurebfs\.)|"
    r"software\.amazon\.awssdk\.|com\.amazonaws\.|com\.google\.)",
    re.MULTILINE,
)
"""
What went wrong, or caused it, where a storage gives no answer.

Of a data file that nobody can read for that Spark says what it says of a damaged one.
"""

_VERSION_GONE = re.compile(
    r"DELTA_VERSION_NOT_FOUND|DELTA_VERSION_INVALID|DELTA_LOG_FILE_NOT_FOUND|DELTA_TRUNCATED_TRANSACTION_LOG|"
    r"DELTA_TIME_TRAVEL|DELTA_UNSUPPORTED_TIME_TRAVEL|DELTA_NO_RECREATABLE_HISTORY_FOUND"
)
_VIOLATED = re.compile(
    r"\[(?P<condition>DELTA_VIOLATE_CONSTRAINT_WITH_VALUES|DELTA_NOT_NULL_CONSTRAINT_VIOLATED|NOT_NULL_ASSERT_VIOLATION|"
    r"EXCEED_LIMIT_LENGTH|CHECK_CONSTRAINT_VIOLATION)\](?: CHECK constraint (?P<name>[^\s(]+))?"
)
"""What a table does not take of a row; the message goes on with the row's values, which are nobody's business."""

_CONFLICT = re.compile(r"DELTA_CONCURRENT_|Concurrent\w+Exception|MetadataChangedException|ProtocolChangedException")


def is_conflict(error: BaseException) -> bool:
    """Tell whether Delta refused a commit because of another one, which had changed what this one had read."""
    return _CONFLICT.search(f"{type(error).__name__} {error}") is not None


def is_duplicate_key(error: BaseException) -> bool:
    """Tell whether something failed because the upstream inserted a key that it had."""
    text = str(error)
    return DUPLICATE_KEY in text and "USER_RAISED_EXCEPTION" in text


def _require_values(error: BaseException, what: str) -> None:
    """Say that the query fails on a row, if that is what went wrong."""
    if condition := condition_of_a_row(error):
        raise QueryFailedError(
            f"{what}: the query fails on a row of the upstream ({condition}); correct the row, or let the query say "
            "what such a row gives (try_cast, try_divide, a filter) and rebuild the job"
        ) from None


def _require_no_violation(error: BaseException, what: str) -> None:
    """Say that the view's owner has bounded its columns, if a row of the query's does not keep within that."""
    found = _VIOLATED.search(str(error))
    if found is None:
        return
    name = found["name"]
    bound = f"the constraint {name}" if name else f"a bound of one of its columns ({found['condition']})"
    drop = f"drop it (ALTER TABLE … DROP CONSTRAINT {name})" if name else "take the bound back, or rebuild the job"
    raise MaterializedViewError(
        f"{what}: a row that the query gives does not meet {bound} of the materialized view; {drop}"
    ) from None


def _is_damage(text: str) -> bool:
    """Tell whether an error means that a data file is gone, or that what is in it makes no sense."""
    return bool(_GONE.search(text) or (_DAMAGED.search(text) and not _NO_ANSWER.search(text)))


@contextmanager
def query_errors() -> Iterator[None]:
    """Say that the job's query is wrong where Spark cannot analyse it."""
    try:
        yield
    except ParseException as error:
        raise InvalidJobError(f"query: syntax error: {first_line(error)}") from error
    except AnalysisException as error:
        raise InvalidJobError(f"query: {first_line(error)}") from error


@contextmanager
def view_errors(path: str) -> Iterator[None]:
    """Say that the view's table cannot be made where Delta refuses it."""
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


def _require_own_tables(text: str, error: BaseException, what: str, tables: Mapping[str, str]) -> None:
    """Say that a table of the strategy is damaged, if it is one of its files that cannot be read."""
    for name, location in tables.items():
        if f"/{location.rsplit('/', 1)[-1]}/" in text:
            raise StateError(
                f"{what} cannot read the {name} at {location} ({said(error)}); restore it from a copy, or rebuild the "
                "job"
            ) from None


@contextmanager
def epoch_errors(what: str, *, tables: Mapping[str, str] | None = None) -> Iterator[None]:
    """
    Translate what fails while an epoch reads and writes.

    :param what: names the epoch, for the message.
    :param tables: names of the strategy's own tables, each with its location.
    """
    try:
        yield
    except BackfillError:
        raise
    except (PySparkException, Py4JError) as error:
        text = str(error)
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
        damaged = _is_damage(text)
        if damaged:
            _require_own_tables(text, error, what, tables or {})
        if _GONE.search(text):
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
        if _DAMAGED.search(text):
            raise storage_unavailable(f"a data file that {what} reads", said(error)) from None
        if "DELTA_CHANGE_DATA_FEED_INCOMPATIBLE" in text:
            raise UpstreamSchemaChangedError(
                f"{what} cannot read the upstream's changes across a column that changed its type "
                f"({said(error)}); rebuild the job. Delta could on a table with column mapping "
                "(delta.columnMapping.mode = name)"
            ) from None
        raise EpochFailedError(f"{what} failed: {said(error)}") from None


@contextmanager
def comparison_errors(what: str) -> Iterator[None]:
    """
    Translate what fails while one side of a comparison is read: nothing is known of it then, it is not empty.

    :param what: names table and version, for the message.
    """
    try:
        yield
    except BackfillError:
        raise
    except (PySparkException, Py4JError) as error:
        _require_values(error, what)
        text = str(error)
        if _VERSION_GONE.search(text):
            raise VersionGoneError(
                f"{what} can no longer be read ({said(error)}); verify anew, which compares the versions that "
                "are there now"
            ) from None
        if _is_damage(text):
            raise DataFileError(
                f"{what} has a data file that is damaged or gone, so nothing is known of it ({said(error)}); "
                "verify anew if it was vacuumed meanwhile, else restore the file from a copy, or rebuild the job"
            ) from None
        raise VerificationFailedError(
            f"{what} could not be read, so nothing is known of it ({said(error)}); try again"
        ) from None
