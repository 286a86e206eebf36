"""A storage that does not answer is distinguished from a table that is damaged or missing."""

from __future__ import annotations

from io import BytesIO
from types import SimpleNamespace

import pyarrow as pa
import pytest
from deltalake.exceptions import DeltaError

from airflow_backfill_provider.core.errors import DataFileError, StorageUnavailableError, TableLogError
from airflow_backfill_provider.lake.log.delta_log import DeltaLog
from airflow_backfill_provider.lake.store.storage import data_file_errors, log_errors, one_line, storage_errors
from airflow_backfill_provider.lake.tables.view_identity import view_identity
from airflow_backfill_provider.sources.delta.source import DeltaSource
from airflow_backfill_provider.state.backfill_reader import BackfillReader

NOBODY_THERE = {
    "AWS_ENDPOINT_URL": "http://127.0.0.1:1",
    "AWS_ALLOW_HTTP": "true",
    "AWS_ACCESS_KEY_ID": "somebody",
    "AWS_SECRET_ACCESS_KEY": "a secret",
    "AWS_REGION": "us-east-1",
    "max_retries": "0",
}
PLACE = "s3://bucket/table"


@pytest.mark.parametrize(
    "look",
    [
        lambda: BackfillReader(PLACE, NOBODY_THERE).settings(),
        lambda: BackfillReader(PLACE, NOBODY_THERE).barriers(),
        lambda: DeltaSource(PLACE, NOBODY_THERE).latest().number,
        lambda: DeltaLog(PLACE, NOBODY_THERE).versions(),
        lambda: DeltaLog(PLACE, NOBODY_THERE).commit(3),
        lambda: view_identity(PLACE, NOBODY_THERE),
    ],
    ids=["settings", "barrier log", "upstream", "versions", "commit", "view"],
)
def test_a_storage_that_does_not_answer_is_a_retryable_error(look):
    with pytest.raises(StorageUnavailableError, match="cannot be reached") as caught:
        look()
    assert caught.value.retryable
    assert PLACE in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "a secret" not in str(caught.value)


def test_a_backtrace_is_not_repeated():
    """deltalake gives one where RUST_BACKTRACE is set."""
    said = """Kernel error: Json error: Encountered unexpected '{' whilst parsing object
   0: <unknown>
   1: deltalake::open
             at ./src/open.rs:12:5
  10: clone3
             at ./misc/clone3.S:81:0
"""
    expected = "Kernel error: Json error: Encountered unexpected '{' whilst parsing object"
    assert one_line(DeltaError(said)) == expected
    assert one_line(f"{said} and more") == f"{expected} and more"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            'Invalid JSON in log record, version: 3, line: {"add":{"stats":"{\\"max\\":{\\"s\\":\\"secret\\"}}"}} x',
            "Invalid JSON in log record, version: 3, line: {…} x",
        ),
        (
            "Cast error: Cannot cast string 'secret' to value of Int64 type",
            "Cast error: Cannot cast string '…' to value of Int64 type",
        ),
        ('Parser error: Error while parsing "secret" as number', "Parser error: Error while parsing '…' as number"),
        ("No such file or directory: '/lake/orders'", "No such file or directory: '/lake/orders'"),
    ],
)
def test_contents_of_tables_are_not_repeated(text, expected):
    """Errors hold no data; paths are not data."""
    assert one_line(text) == expected


def test_a_signature_after_a_question_mark_is_not_repeated():
    with pytest.raises(StorageUnavailableError, match=r"GET https://host/b 403") as caught, storage_errors("/x"):
        raise OSError("GET https://host/b?sv=1&sig=abc: 403 Forbidden")
    assert "sig" not in str(caught.value)


@pytest.mark.parametrize(
    "client",
    [
        "Kernel error -> Arrow error: External: Generic S3 error: Error performing GET http://h/c.parquet: 503 Busy",
        "Generic GCS error: Error performing list request",
        "Generic MicrosoftAzure error: 403 Forbidden",
        "Kernel error -> The operation lacked the necessary privileges to complete for path view/_delta_log",
        "The operation lacked valid authentication credentials for path view/_delta_log",
    ],
)
def test_a_log_that_could_only_be_read_in_part_is_not_damaged(client):
    with pytest.raises(StorageUnavailableError, match="/x cannot be reached") as caught, log_errors("/x"):
        raise DeltaError(client)
    assert caught.value.retryable


@pytest.mark.parametrize(
    "client",
    [
        "Generic DeltaTable error: the schema makes no sense",
        "Kernel error -> Generic delta kernel error: the protocol makes no sense",
        "Generic S3 error: Error performing GET http://h/c.parquet\nbytes=9-: 416 Range Not Satisfiable",
    ],
)
def test_a_log_that_makes_no_sense_is_damaged(client):
    """A file that is shorter than its table says was cut off."""
    with pytest.raises(TableLogError, match="/x is damaged") as caught, log_errors("/x"):
        raise DeltaError(client)
    assert not caught.value.retryable


def refusing(error):
    """A storage that no file can be opened in."""

    def refuse(*_):
        raise error

    return SimpleNamespace(open_input_file=refuse)


@pytest.mark.parametrize(
    ("storage", "said", "word"),
    [
        (refusing(OSError("connection reset")), StorageUnavailableError, "cannot be reached"),
        (refusing(FileNotFoundError("nothing there")), DataFileError, "is gone"),
        (SimpleNamespace(open_input_file=lambda _: BytesIO(b"x")), DataFileError, "is damaged"),
    ],
)
def test_a_file_that_arrow_cannot_read_is_read_again(storage, said, word):
    """Arrow has the same error for damaged pages and for broken connections. A retry helps only with the latter."""
    with pytest.raises(said, match=word) as caught, data_file_errors(storage, "/table", "a.parquet"):
        raise pa.ArrowInvalid("Unexpected end of stream")
    assert caught.value.retryable is (said is StorageUnavailableError)
