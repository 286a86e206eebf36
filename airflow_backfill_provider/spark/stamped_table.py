"""
A Delta table with a stamp in every commit, such as the view and the arrangement.

Every write has a transaction id (job, incarnation, part) with the epoch as version, and the digest of the pinned
barrier. Delta skips a version that it has seen. Whether a skipped or conflicting write was the job's own is never
assumed, but read from the table's log.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.errors import (
    BackfillError,
    EpochFailedError,
    EpochGivenUpError,
    MaterializedViewError,
)
from airflow_backfill_provider.core.job.sql import quote
from airflow_backfill_provider.core.scan.table_version import TableVersion
from airflow_backfill_provider.lake.log.added_files import AppendTransaction
from airflow_backfill_provider.lake.log.delta_log import Commit, DeltaLog, stamp_of
from airflow_backfill_provider.lake.log.uncommitted import NO_TABLE
from airflow_backfill_provider.lake.tables.view_identity import ViewIdentity, remove_uncommitted_files, view_identity
from airflow_backfill_provider.spark.appending import append_by_delta, append_rows
from airflow_backfill_provider.spark.partitions import gathered, storable
from airflow_backfill_provider.spark.session import session_settings
from airflow_backfill_provider.spark.spark_errors import is_conflict
from airflow_backfill_provider.spark.staged_files import StagedFiles
from airflow_backfill_provider.spark.stamps import (
    GIVEN_UP,
    TableKind,
    creates,
    creation_id,
    epoch_transaction,
    is_harmless,
    is_of_earlier_epoch,
    is_ours,
    stamp_for,
    transaction_id,
)
from airflow_backfill_provider.spark.table_rows import rows_at

_TRANSACTION_ID = "spark.databricks.delta.write.txnAppId"
_TRANSACTION_VERSION = "spark.databricks.delta.write.txnVersion"
_USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"

_FENCE = 2**62

_STATEMENTS = threading.Lock()
"""Held while a part's statement runs under the settings of its transaction."""


logger = logging.getLogger(__name__)


VIEW_TABLE = TableKind("materialized_view", MaterializedViewError, "repair the changed rows, or rebuild the job")


class StampedTable:
    """
    A table that one job writes.

    :param spark: the session to write with.
    :param path: canonical location.
    :param kind: the table's kind, for messages.
    :param storage_options: options of the object store, as deltalake takes them.
    :param partition_by: its partition columns.
    """

    def __init__(
        self,
        spark: SparkSession,
        path: str,
        kind: TableKind,
        storage_options: Mapping[str, str] | None = None,
        partition_by: Sequence[str] = (),
    ) -> None:
        self.partition_by = tuple(partition_by)
        self.path = path
        self.spark = spark
        self._kind = kind
        self.log = DeltaLog(path, storage_options)
        self.storage_options = storage_options

    @property
    def sql_name(self) -> str:
        """The table's name in Spark SQL."""
        return f"delta.{quote(self.path)}"

    def read(self) -> DataFrame:
        """Return the table's rows as of now."""
        return self.spark.read.format("delta").load(self.path)

    def read_at(self, version: int) -> DataFrame:
        """Return the table's rows as of a version."""
        return rows_at(self.spark, self.path, version, self.storage_options)

    # -------------------------------------------------------------------------------------------------- writes

    def append(
        self,
        rows: DataFrame,
        part: str,
        identity: ViewIdentity,
        barrier: Barrier,
        facts: Mapping[str, object] | None = None,
    ) -> None:
        """
        Append rows, once per epoch and part.

        :param facts: more fields of the commit's stamp.
        """
        transaction = epoch_transaction(identity, part, barrier, facts)
        staged = StagedFiles(self.path, identity.incarnation, barrier.epoch)

        placed = gathered(storable(rows, self.partition_by), self.partition_by)

        def write() -> None:
            append_rows(placed, self.path, transaction, staged, self.storage_options)

        self.once(part, identity, barrier, write, may_be_empty=False)

    def run(self, statement: str, part: str, identity: ViewIdentity, barrier: Barrier) -> None:
        """
        Run a statement that changes rows, once per epoch and part.

        The transaction is committed even if nothing changes. Otherwise a replay after the chunk was appended could
        delete a row that moved into it.
        """

        def write() -> None:
            transaction = {
                _TRANSACTION_ID: transaction_id(identity, part),
                _TRANSACTION_VERSION: str(barrier.epoch),
            }
            # Parts of a chunk are written by threads of one session, and these settings are the session's.
            with _STATEMENTS, self.committing(stamp_for(barrier, part), transaction):
                self.spark.sql(statement).collect()

        if not self.once(part, identity, barrier, write, may_be_empty=True):
            self.append(self.read().limit(0), part, identity, barrier)

    def create_once(self, statement: str, identity: ViewIdentity, *, order: int) -> None:
        """
        Create the table of an incarnation, unless it or the table of a later incarnation exists.

        :param order: the number of the job's incarnation. It is the version of a transaction that all incarnations
            share, so a process from before a rebuild can never replace the new table with its own empty one.
        :raises MaterializedViewError: if the path holds another table afterwards.
        """
        transaction = {_TRANSACTION_ID: creation_id(identity), _TRANSACTION_VERSION: str(order)}

        def write() -> None:
            with self.committing({"event": "create", "incarnation": identity.incarnation}, transaction):
                self.spark.sql(statement).collect()

        failure = self._attempt(write)
        if failure is not None:
            # Despite the error, the table may exist: another process may have created it.
            remove_uncommitted_files(self.path)
        try:
            found = view_identity(self.path, self.storage_options)
        except MaterializedViewError:
            # The failed write may have left files at the path, which are not the cause of the failure.
            if failure is None:
                raise
            raise failure from None
        if found == identity:
            return
        if failure is not None:
            raise failure
        if found is None:
            raise MaterializedViewError(f"materialized_view: {self.path} {NO_TABLE}")
        raise MaterializedViewError(
            f"materialized_view: {self.path} holds the view of a later rebuild of job {identity.job}; this rebuild has "
            "nothing left to do"
        )

    def burn_transaction(self, transaction: str) -> None:
        """Make Delta skip every later write with a transaction id."""
        self._write_nothing(transaction, _FENCE, {"event": "fence"})
        self.log.written_to()

    def fence(self, part: str, identity: ViewIdentity, barrier: Barrier) -> bool:
        """
        Make Delta skip every later write of a part of an epoch, unless the part is written.

        Both use the same transaction, so the first one in the table's log wins, and a written part prevents the fence.

        :returns: whether the part is written.
        :raises BackfillError: if the log shows neither.
        """
        written = self._fenced_or_written(part, identity, barrier)
        if written is not None:
            return written
        stamp = stamp_for(barrier, part, event=GIVEN_UP)
        failure = self._attempt(lambda: self._write_nothing(transaction_id(identity, part), barrier.epoch, stamp))
        written = self._fenced_or_written(part, identity, barrier)
        if written is not None:
            return written
        if failure is not None:
            raise failure
        raise EpochFailedError(
            f"epoch {barrier.epoch}: the log of {self.path} shows neither that part {part} was written nor that it was "
            "given up; run the epoch again"
        )

    def _fenced_or_written(self, part: str, identity: ViewIdentity, barrier: Barrier) -> bool | None:
        """Return whether a part is written (``True``) or fenced (``False``); ``None`` if neither."""
        try:
            return self.is_written(part, identity, barrier) or None
        except EpochGivenUpError:
            return False

    def _write_nothing(self, transaction: str, version: int, stamp: Mapping[str, object]) -> None:
        append_by_delta(self.read().limit(0), self.path, AppendTransaction(transaction, version, json.dumps(stamp)))

    @contextmanager
    def committing(self, stamp: Mapping[str, object], transaction: Mapping[str, str] | None = None) -> Iterator[None]:
        """Set the stamp and the transaction of commits of SQL statements."""
        with session_settings(self.spark, {_USER_METADATA: json.dumps(stamp), **(transaction or {})}):
            yield

    # ------------------------------------------------------------------------------------------------- the log

    def is_written(self, part: str, identity: ViewIdentity, barrier: Barrier) -> bool:
        """
        Return whether the table's log shows the barrier's commit of a part.

        :raises MaterializedViewError: if the part was written with another barrier.
        :raises EpochFailedError: if a later epoch wrote the part, so this attempt has nothing left to do.
        :raises EpochGivenUpError: if the part was given up.
        """
        overtaken_by = None
        for commit in self.commits_back(identity):
            epoch = commit.transactions.get(transaction_id(identity, part))
            if epoch is None:
                if is_of_earlier_epoch(commit, identity, barrier):
                    break
                continue
            if epoch < barrier.epoch:
                break
            stamp = stamp_of(commit)
            if epoch > barrier.epoch:
                overtaken_by = epoch
            elif stamp.get("digest") == barrier.digest:
                if stamp.get("event") == GIVEN_UP:
                    raise EpochGivenUpError(
                        f"part {part} of epoch {barrier.epoch} of job {identity.job} was given up in version "
                        f"{commit.version} of {self.path}; this attempt does not write it"
                    )
                return True
            else:
                raise self._kind.error(
                    f"{self._kind.name}: version {commit.version} of {self.path} holds epoch {epoch} of job "
                    f"{identity.job}, but not as the pinned barrier has it; rebuild the job"
                )
        if overtaken_by is not None:
            raise EpochFailedError(
                f"epoch {barrier.epoch} of job {identity.job} was overtaken by a later epoch or a rebuild; this "
                "attempt writes nothing"
            )
        return False

    def commits_back(self, identity: ViewIdentity) -> Iterator[Commit]:
        """Yield commits from the newest back to the one that created the incarnation's table."""
        for version in reversed(self.log.versions()):
            commit = self.log.commit(version)
            if commit is None:
                return
            yield commit
            if creates(commit, identity):
                return

    def require_continued(self, barrier: Barrier, since: TableVersion | None) -> TableVersion:
        """
        Refuse a table whose log no longer has the version that the previous epoch left.

        :param since: the version that the previous epoch left; ``None`` before the first epoch.
        :returns: the newest version.
        :raises BackfillError: the error of the table's kind, with what was found.
        """
        newest, kind = self.log.newest(), self._kind
        if since is None:
            return newest
        if newest.version < since.version:
            raise kind.error(
                f"{kind.name}: {self.path} is at version {newest.version}, but epoch {barrier.prev_epoch} left it at "
                f"version {since.version}; the table was recreated, or restored from an older copy: rebuild the job"
            )
        written_at = newest.written_at if newest.version == since.version else self.log.written_at(since.version)
        if None not in (written_at, since.written_at) and written_at != since.written_at:
            raise kind.error(
                f"{kind.name}: version {since.version} of {self.path} was written at {written_at}, but epoch "
                f"{barrier.prev_epoch} left a version {since.version} that was written at {since.written_at}; the "
                "table was restored from an older copy and written since: rebuild the job"
            )
        return newest

    def require_untouched(self, identity: ViewIdentity, barrier: Barrier, since: TableVersion | None) -> None:
        """
        Refuse a table that a foreign writer changed since the previous epoch.

        :param since: the version that the previous epoch left; ``None`` before the first epoch.
        :raises BackfillError: the error of the table's kind, with the foreign version, or one that the log lacks.
        """
        kind = self._kind
        oldest = self.log.versions()[-1] + 1
        for commit in self.commits_back(identity):
            if commit.version < oldest - 1 or (since is not None and commit.version <= since.version):
                break
            if not (is_ours(commit, identity, barrier, since) or is_harmless(commit)):
                if commit.operation.endswith(("COLUMN", "COLUMNS")):
                    raise kind.error(
                        f"{kind.name}: version {commit.version} of {self.path} ({commit.operation}) was not written by "
                        f"job {identity.job}, and changed the table's columns; only the job may do so: rebuild the job"
                    )
                raise kind.error(
                    f"{kind.name}: version {commit.version} of {self.path} ({commit.operation}) was not written by "
                    f"job {identity.job}; only the job may write to it: {kind.remedy}"
                )
            if since is None and creates(commit, identity):
                return
            oldest = commit.version
        if since is None or oldest > since.version + 1:
            raise kind.error(
                f"{kind.name}: the log of {self.path} lacks version {oldest - 1}, so it does not show what was written "
                f"to the table since epoch {barrier.prev_epoch}; {kind.remedy}"
            )

    def once(
        self, part: str, identity: ViewIdentity, barrier: Barrier, write: Callable[[], None], *, may_be_empty: bool
    ) -> bool:
        """Write the part unless it is written; return whether the log shows the write, whatever Delta reported."""
        if self.is_written(part, identity, barrier):
            return True
        failure = self._attempt(write)
        if self.is_written(part, identity, barrier):
            return True
        if failure is not None and self._lost_to_compaction(failure, identity):
            # Another compaction so soon is unlikely, so one retry is enough.
            logger.info(
                "part %s of epoch %d conflicted with a compaction of %s; trying again", part, barrier.epoch, self.path
            )
            failure = self._attempt(write)
            if self.is_written(part, identity, barrier):
                return True
        if failure is not None:
            raise failure
        self._require_unused(part, identity, barrier)
        # A statement that changes nothing may leave no commit: in this Delta, a MERGE does, a DELETE does not.
        if not may_be_empty:
            raise EpochFailedError(
                f"epoch {barrier.epoch}: Delta reported part {part} as written, but the log of {self.path} does not "
                "show it; run the epoch again"
            )
        return False

    def _require_unused(self, part: str, identity: ViewIdentity, barrier: Barrier) -> None:
        """Refuse a part that Delta skips as committed although its commit is no longer in the log."""
        seen = self.log.transaction_version(transaction_id(identity, part))
        if seen is not None and seen >= barrier.epoch:
            raise self._kind.error(
                f"{self._kind.name}: part {part} of epoch {barrier.epoch} was written to {self.path}, but its commit "
                "was removed from the log before the epoch was committed, so it cannot be checked; rebuild the job, "
                "and retry failed epochs within delta.logRetentionDuration"
            )

    def _lost_to_compaction(self, failure: Exception, identity: ViewIdentity) -> bool:
        """Return whether a write lost a conflict to a compaction: only compactions follow the job's newest write."""
        if not is_conflict(failure):
            return False
        for commit in self.commits_back(identity):
            if commit.changes_data or commit.replaces_metadata:
                return stamp_of(commit).get("incarnation") == identity.incarnation
        return False

    def _attempt(self, write: Callable[[], None]) -> PySparkException | Py4JJavaError | BackfillError | None:
        """Write, and return the error; the log shows whether the write succeeded anyway."""
        try:
            write()
        except (PySparkException, Py4JJavaError, BackfillError) as error:
            # Spark passes Delta's own errors, such as a conflict, to Python unchanged.
            return error
        finally:
            self.log.written_to()
        return None
