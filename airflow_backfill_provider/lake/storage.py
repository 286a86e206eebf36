"""
What deltalake and Arrow say when a table cannot be read: its storage does not answer, or it is damaged.

The first may pass. The second is said at the edge, for what Rust calls a panic is no ``Exception`` in Python and would
get past everybody.
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

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_URL_PARAMETERS = re.compile(r"(https?://[^\s?]+)\?\S*")
_NO_ANSWER = re.compile(
    r"Generic (?:S3|GCS|MicrosoftAzure|HTTP|HdfsObjectStore) error(?!.*\b416 Range Not Satisfiable)|"
    r"lacked the necessary privileges|lacked valid authentication credentials",
    re.DOTALL,
)
"""
What object stores' clients say that got no answer, also inside of an error about a log of which they read a part.

A range that is not there is an answer: the file is shorter than its table says.
"""

_JSON = re.compile(r"\{\s*\\*\".*\}", re.DOTALL)
"""A piece of a log or of a record, which an error about it quotes: statistics of rows, say."""

_QUOTED_VALUE = re.compile(
    r"\b(string|value|literal|input|parse|parsing|cast|convert(?:ing)?)\s+('[^']*'|\"[^\"]*\")", re.IGNORECASE
)
"""A value of a row, in what Arrow and DataFusion say of one that they cannot read or convert."""

_BACKTRACE = re.compile(r"^ +\d+: .*(?:\n +at .*)*$", re.MULTILINE)
"""What Rust adds to an error where ``RUST_BACKTRACE`` is set."""

_FULL = re.compile(r"No space left on device|Disk quota exceeded", re.IGNORECASE)
_PANIC = "PanicException"
"""The name of pyo3's class, which cannot be imported."""


class DamagedLogError(DeltaError):
    """deltalake gave up on a table's log: what it says makes no sense."""


@contextmanager
def storage_errors(location: str) -> Iterator[None]:
    """
    Tell a storage that does not answer, or is full, from a table that is damaged: the first may pass.

    :param location: the table, for the message.
    :raises StorageUnavailableError: if the storage cannot be reached, refuses access, or is full.
    :raises DamagedLogError: if deltalake gave up on the table's log.
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
    Make an error of what Rust calls a panic.

    :raises DamagedLogError: in its place.
    """
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != _PANIC:
            raise
        raise DamagedLogError(f"deltalake gave up: {one_line(error)}") from error


@contextmanager
def log_errors(location: str) -> Iterator[None]:
    """
    Say that a table's log is damaged, where nobody says it better.

    :raises TableLogError: if deltalake refuses the log, or an entry is no JSON of a commit.
    :raises StorageUnavailableError: as :func:`storage_errors`.
    """
    try:
        with storage_errors(location):
            yield
    except (DeltaError, ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, BackfillError):
            raise
        raise TableLogError(
            f"the log of the Delta table at {location} is damaged ({one_line(error)}); restore the table from a copy, "
            "or rebuild the job"
            # A traceback would show what the log says of rows.
        ) from None


@contextmanager
def data_file_errors(storage: arrow_fs.FileSystem, table: str, file: str) -> Iterator[None]:
    """
    Say that a data file is damaged or gone.

    :param storage: file system rooted at the table.
    :param table: its location, for the message.
    :param file: path in the table.
    :raises DataFileError: if the file is gone, or its bytes can be had and make no sense.
    :raises StorageUnavailableError: if they cannot be had.
    """
    try:
        with panics_as_errors():
            yield
    except (pa.ArrowException, KeyError, OSError, DamagedLogError) as error:
        if got_no_answer(error):
            raise storage_unavailable(table, error) from error
        # Arrow says of damaged pages what it says of other storages.
        with storage_errors(table):
            _require_bytes(storage, table, file)
        raise DataFileError(
            f"data file {file} of {table} is damaged ({one_line(error)}); restore it from a copy, or repair the table "
            "and rebuild the job"
        ) from error


def got_no_answer(error: BaseException) -> bool:
    """Tell whether an error says that an object store did not answer; it may have by now."""
    return _NO_ANSWER.search(str(error)) is not None


def storage_unavailable(location: str, error: BaseException | str) -> StorageUnavailableError:
    """Return the error that says that a storage did not answer."""
    return StorageUnavailableError(
        f"{location} cannot be reached ({one_line(error)}); check the storage, its options and the right to read it, "
        "then try again"
    )


def is_full(error: BaseException) -> bool:
    """Tell whether an error means that a disk is full."""
    return getattr(error, "errno", None) in {errno.ENOSPC, errno.EDQUOT} or _FULL.search(str(error)) is not None


def storage_full(location: str) -> StorageUnavailableError:
    """Return the error that says that there is no room."""
    return StorageUnavailableError(
        f"the storage of {location} is full; nothing half written counts: make room, then try again"
    )


def one_line(error: BaseException | str) -> str:
    """
    Return what an error says, fit to be shown: in one line, without signatures of addresses and backtraces.

    Neither does it quote what tables hold: pieces of logs and values are left out.
    """
    # A signature may stand behind the question mark.
    text = _URL_PARAMETERS.sub(r"\1", _COLOURS.sub("", str(error)).replace("↳", ""))
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
