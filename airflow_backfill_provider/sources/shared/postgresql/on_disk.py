"""
Waits until all that a session may have seen is on the server's disk.

With ``synchronous_commit = off``, others see a transaction before it is on disk, and a crash of the server loses it.
The server writes it within seconds, without being asked.
"""

from __future__ import annotations

from tenacity import retry, retry_if_exception_type, stop_after_delay, wait_random_exponential

from airflow_backfill_provider.core.errors import DatabaseUnavailableError, UpstreamError
from airflow_backfill_provider.sources.shared.postgresql.catalog import Connection
from airflow_backfill_provider.sources.shared.postgresql.lsn import parse_lsn

_PATIENCE_SECONDS = 60
"""Twice as long as a server with the longest delay takes."""

_PAGE_HEADER, _FILE_HEADER = 24, 40
"""The bytes that come before the first record of a page of the log, and of a file of it."""

_END = """
SELECT pg_current_wal_insert_lsn()::text, current_setting('wal_block_size')::int,
       pg_size_bytes(current_setting('wal_segment_size'))
"""


class _NotOnDiskYetError(DatabaseUnavailableError):
    """The server has not written its log yet."""


def wait_until_on_disk(connection: Connection) -> None:
    """
    Wait until the log on disk has every transaction that can be seen now.

    :param connection: a session with a primary; one that stays open has not missed a crash.
    :raises DatabaseUnavailableError: if that takes long.
    """
    inserted, page, file = connection.execute(_END).fetchall()[0]
    _wait_for(connection, end_of_records(parse_lsn(inserted), page=page, file=file))


def end_of_records(inserted: int, *, page: int, file: int) -> int:
    """
    Return the LSN after the last record.

    :param inserted: the LSN of the next record, which lies after a header if it is the first of a page.
    :param page: the bytes of a page.
    :param file: the bytes of a file.
    """
    if inserted % file == _FILE_HEADER:
        return inserted - _FILE_HEADER
    return inserted - _PAGE_HEADER if inserted % page == _PAGE_HEADER else inserted


@retry(
    retry=retry_if_exception_type(_NotOnDiskYetError),
    wait=wait_random_exponential(multiplier=0.05, max=1),
    stop=stop_after_delay(_PATIENCE_SECONDS),
    reraise=True,
)
def _wait_for(connection: Connection, lsn: int) -> None:
    if newest_lsn(connection) < lsn:
        raise _NotOnDiskYetError(
            f"{connection.info.host}: the server has not written its log up to {lsn} to its disk for "
            f"{_PATIENCE_SECONDS} seconds; is the disk slow? Nothing is lost, try again"
        )


def newest_lsn(connection: Connection) -> int:
    """Return the newest LSN that is on disk."""
    row = connection.execute("SELECT pg_current_wal_flush_lsn()::text").fetchone()
    if row is None:
        raise UpstreamError("the server returned no LSN")
    return parse_lsn(row[0])
