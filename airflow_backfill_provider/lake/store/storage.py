"""
Translates errors of deltalake and Arrow when a table cannot be read: its storage does not answer, or it is damaged.

A retry may help against the first, not against the second. Panics in Rust are translated here as well, because their
class does not derive from ``Exception``, and no handler would catch them.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.fs as arrow_fs
from deltalake.exceptions import DeltaError

from airflow_backfill_provider.core.errors import BackfillError, DataFileError, StorageUnavailableError, TableLogError
from airflow_backfill_provider.lake.store.storage_answers import advice, without_documents

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_URL_PARAMETERS = re.compile(r"(https?://[^\s?]+)\?\S*")
_NO_ANSWER = re.compile(
    r"Generic (?:S3|GCS|MicrosoftAzure|HTTP|HdfsObjectStore) error(?!.*\b416 Range Not Satisfiable)|"
    r"lacked the necessary privileges|lacked valid authentication credentials",
    re.DOTALL,
)
"""
Texts of object store clients that got no answer; they also occur inside errors about a log that was read in part.

"Range Not Satisfiable" is an answer: the file is shorter than the table's log says.
"""

_JSON = re.compile(r"\{\s*\\*\".*\}", re.DOTALL)
"""A piece of a log or of a record that an error quotes, such as statistics of rows."""

_QUOTED_VALUE = re.compile(
    r"\b(string|value|literal|input|parse|parsing|cast|convert(?:ing)?)\s+('[^']*'|\"[^\"]*\")", re.IGNORECASE
)
"""A row's value, quoted by Arrow or DataFusion when they cannot read or convert it."""

_BACKTRACE = re.compile(r"^ +\d+: .*(?:\n +at .*)*$", re.MULTILINE)
"""The backtrace that Rust adds to an error if ``RUST_BACKTRACE`` is set."""

_FULL = re.compile(r"No space left on device|Disk quota exceeded", re.IGNORECASE)
_PANIC = "PanicException"
"""The name of pyo3's class, which cannot be imported."""


class DamagedLogError(DeltaError):
    """deltalake panicked on the contents of a table's log."""


@contextmanager
def storage_errors(location: str) -> Iterator[None]:
    """
    Translate the errors of a storage that does not answer or is full; a retry may help. Others are raised as they are.

    :param location: the table, for the message.
    :raises StorageUnavailableError: if the storage cannot be reached, refuses access, or is full.
    :raises DamagedLogError: if deltalake panicked on the table's log.
    """
    try:
        with panics_as_errors():
            yield
    except (OSError, DeltaError) as error:
        if is_full(error):
            raise storage_full(location) from error
        if isinstance(error, OSError) or got_no_answer(error):
            raise storage_unavailable(location, error) from error
        raise


@contextmanager
def panics_as_errors() -> Iterator[None]:
    """
    Translate a panic in Rust.

    :raises DamagedLogError: in place of the panic.
    """
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != _PANIC:
            raise
        raise DamagedLogError(f"deltalake panicked: {one_line(error)}") from error


@contextmanager
def log_errors(location: str) -> Iterator[None]:
    """
    Translate errors about a table's log.

    :param location: the table, for the message.
    :raises TableLogError: if deltalake refuses the log, or an entry of a commit is invalid.
    :raises StorageUnavailableError: as :func:`storage_errors`.
    """
    try:
        with storage_errors(location):
            yield
    except (DeltaError, ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, BackfillError):
            raise
        raise TableLogError(
            f"the log of the Delta table at {location} is damaged ({one_line(error)}); restore the "
            "damaged files of the log from a copy, or rebuild the job"
            # No cause: its text may quote statistics of rows.
        ) from None


@contextmanager
def data_file_errors(storage: arrow_fs.FileSystem, table: str, file: str) -> Iterator[None]:
    """
    Translate errors about a data file.

    :param storage: file system rooted at the table.
    :param table: its location, for the message.
    :param file: path in the table.
    :raises DataFileError: if the file is gone, or its bytes can be read but not decoded.
    :raises StorageUnavailableError: if its bytes cannot be read.
    """
    try:
        with panics_as_errors():
            yield
    except (pa.ArrowException, KeyError, OSError, DamagedLogError) as error:
        if got_no_answer(error):
            raise storage_unavailable(table, error) from error
        # Arrow raises the same errors for damaged pages and for failed reads. So read the bytes to tell them apart.
        with storage_errors(table):
            _require_bytes(storage, table, file)
        raise DataFileError(
            f"data file {file} of {table} is damaged ({one_line(error)}); restore it from a copy, or repair the table "
            "and rebuild the job"
        ) from error


def got_no_answer(error: BaseException) -> bool:
    """Tell whether an error means that an object store did not answer."""
    return _NO_ANSWER.search(str(error)) is not None


def storage_unavailable(
    location: str, error: BaseException | str, *, cause: BaseException | None = None
) -> StorageUnavailableError:
    """
    Return the error for a storage that did not answer.

    :param error: what is shown.
    :param cause: what says more of the reason, and may quote rows; by default the same.
    """
    reason = str(error if cause is None else cause)
    return StorageUnavailableError(f"{location} cannot be reached ({one_line(error)}); {advice(reason)}")


def is_full(error: BaseException) -> bool:
    """Tell whether an error means that a disk is full."""
    return getattr(error, "errno", None) in {errno.ENOSPC, errno.EDQUOT} or _FULL.search(str(error)) is not None


def storage_full(location: str) -> StorageUnavailableError:
    """Return the error for a full storage."""
    return StorageUnavailableError(
        f"the storage of {location} is full; make room, then try again: files without a commit are ignored"
    )


def one_line(error: BaseException | str) -> str:
    """
    Return an error's text in one line, safe to show.

    URL parameters, which may hold a signature, documents, backtraces, pieces of logs and values of rows are left out.
    """
    text = without_documents(str(error))
    text = _URL_PARAMETERS.sub(r"\1", _COLOURS.sub("", text).replace("↳", ""))
    text = _QUOTED_VALUE.sub(r"\1 '…'", _JSON.sub("{…}", _BACKTRACE.sub("", text)))
    return " ".join(text.split())


def _require_bytes(storage: arrow_fs.FileSystem, table: str, file: str) -> None:
    try:
        with storage.open_input_file(file) as source:
            source.read()
    except FileNotFoundError as error:
        raise DataFileError(
            f"data file {file} of {table} is gone; restore it from a copy, or repair the table and rebuild the job"
        ) from error
