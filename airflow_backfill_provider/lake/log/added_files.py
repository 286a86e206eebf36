"""Adds data files to a plain Delta table, in one commit with an application's transaction."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction, RemoveAction
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random

from airflow_backfill_provider.core.errors import BackfillError, EpochFailedError
from airflow_backfill_provider.core.location import is_local
from airflow_backfill_provider.lake.log.own_commits import commit_append, has_links
from airflow_backfill_provider.lake.log.plain_tables import PlainTable, plain_table
from airflow_backfill_provider.lake.log.written_statistics import statistics_of
from airflow_backfill_provider.lake.store.bucket_options import options_of
from airflow_backfill_provider.lake.store.storage import one_line, storage_errors

_MOST_ATTEMPTS = 20

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class AppendTransaction:
    """
    The transaction of an append.

    :param name: the application's id.
    :param version: its version; a version that the table has seen is not committed again, nor a lower one.
    :param user_metadata: the writer's own text in the commit.
    """

    name: str
    version: int
    user_metadata: str


def open_plain(location: str, storage_options: Mapping[str, str] | None = None) -> PlainTable | None:
    """
    Return what adding files to a table needs; ``None`` if there is no table, or it is not plain.

    In a file system without hard links no table counts as plain, because only Delta's own writer can commit there.
    To some tables deltalake writes neither commits nor checkpoints that have all. Of these, one whose next version is
    to have a checkpoint does not count as plain, so that Delta's own writer makes the commit, and then the checkpoint.

    :raises StorageUnavailableError: if its storage does not answer.
    """
    try:
        with storage_errors(location):
            table = DeltaTable(location, storage_options=options_of(location, storage_options))
            found = plain_table(table)
            if found is None or (is_local(location) and not has_links(location)):
                return None
            if found.for_deltalake or (table.version() + 1) % found.checkpoint_interval:
                return found
            return None
    except DeltaError:
        # Delta's own writer may still be able to use it, or says what is wrong.
        return None


def add_files(
    location: str,
    files: Mapping[str, pq.FileMetaData],
    expected: PlainTable,
    transaction: AppendTransaction,
    storage_options: Mapping[str, str] | None = None,
) -> bool:
    """
    Commit data files that lie in a local table's folder, unless the table has seen the transaction.

    deltalake commits a transaction again that the table had when it was opened. So each attempt looks for it in the
    newest version, and commits exactly the next one. Retries of deltalake's own would not look at the table again.

    :param files: name in the table's folder → footer.
    :param expected: the table as it was when the files were written.
    :returns: whether the files are part of the table now. If not, nobody refers to them.
    :raises EpochFailedError: if the table is another by now, or other writers were faster again and again.
    :raises StorageUnavailableError: if its storage does not answer; then the files may be part of the table.
    """
    actions = [_action(Path(location, name), footer, expected) for name, footer in files.items()]
    return commit_files(location, actions, expected, transaction, storage_options)


def commit_files(
    location: str,
    files: Sequence[AddAction],
    expected: PlainTable,
    transaction: AppendTransaction,
    storage_options: Mapping[str, str] | None = None,
) -> bool:
    """
    Commit the entries of data files that lie in a table's folder; see :func:`add_files`.

    :param files: the entries.
    """
    actions = list(files)
    attempts = Retrying(
        retry=retry_if_exception_type(CommitFailedError),
        stop=stop_after_attempt(_MOST_ATTEMPTS),
        wait=wait_random(max=0.1),
        reraise=True,
    )
    try:
        with storage_errors(location):
            return attempts(_attempt, location, actions, expected, transaction, storage_options)
    except DeltaError as error:
        raise EpochFailedError(
            f"files could not be added to the Delta table at {location} ({one_line(error)}); run the epoch again"
        ) from error


def _attempt(
    location: str,
    actions: list[AddAction],
    expected: PlainTable,
    transaction: AppendTransaction,
    storage_options: Mapping[str, str] | None,
) -> bool:
    table = DeltaTable(location, storage_options=options_of(location, storage_options))
    seen = table.transaction_version(transaction.name)
    if seen is not None and seen >= transaction.version:
        return False
    if plain_table(table) != expected:
        raise EpochFailedError(
            f"{location} was recreated, or its columns or properties changed, while the epoch wrote; run the epoch "
            "again"
        )
    if not expected.for_deltalake:
        commit_append(
            location,
            table.version() + 1,
            actions,
            transaction=(transaction.name, transaction.version),
            user_metadata=transaction.user_metadata,
        )
        return True
    table.create_write_transaction(
        list[AddAction | RemoveAction](actions),
        "append",
        table.schema(),
        commit_properties=CommitProperties(
            custom_metadata={"userMetadata": transaction.user_metadata},
            max_commit_retries=0,
            app_transactions=[Transaction(transaction.name, transaction.version)],
        ),
        post_commithook_properties=PostCommitHookProperties(create_checkpoint=False),
    )
    write_due_checkpoint(table, location, expected)
    return True


def write_due_checkpoint(table: DeltaTable, location: str, expected: PlainTable) -> None:
    """
    Write a checkpoint as often as Delta does, which is more often than deltalake does; a failure postpones it.

    :param table: the table at the version that was committed.
    """
    if table.version() % expected.checkpoint_interval:
        return
    try:
        with storage_errors(location):
            table.create_checkpoint()
    except (DeltaError, BackfillError) as error:
        logger.info("no checkpoint of %s was written: %s", location, one_line(error))


def _action(file: Path, footer: pq.FileMetaData, table: PlainTable) -> AddAction:
    with storage_errors(str(file.parent)):
        found = file.stat()
    return AddAction(
        path=file.name,
        size=found.st_size,
        partition_values={},
        modification_time=found.st_mtime_ns // 1_000_000,
        data_change=True,
        stats=statistics_of(footer, table.fields, table.indexed),
    )
