"""
A Delta table with a stamp in every commit, as the view and the arrangement are.

Every write has a transaction id (job, incarnation, part) with the epoch as version, and the digest of the pinned
barrier. Delta skips a version that it has seen. The table's own log then shows whether a skipped or conflicting write
was ours; that is never assumed.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from airflow_backfill_provider.core.barrier import Barrier
from airflow_backfill_provider.core.errors import (
    EpochFailedError,
    EpochGivenUpError,
    MaterializedViewError,
)
from airflow_backfill_provider.core.sql import quote
from airflow_backfill_provider.core.table_version import TableVersion
from airflow_backfill_provider.engine.session import session_settings
from airflow_backfill_provider.engine.spark_errors import is_conflict
from airflow_backfill_provider.engine.stamps import (
    GIVEN_UP,
    TableKind,
    creates,
    creation_id,
    is_harmless,
    is_of_earlier_epoch,
    is_ours,
    stamp_for,
    transaction_id,
)
from airflow_backfill_provider.lake.delta_log import Commit, DeltaLog, stamp_of
from airflow_backfill_provider.lake.view_identity import (
    ViewIdentity,
    remove_what_was_not_committed,
    view_identity,
)

_TRANSACTION_ID = "spark.databricks.delta.write.txnAppId"
_TRANSACTION_VERSION = "spark.databricks.delta.write.txnVersion"
_USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"

_FENCE = 2**62


logger = logging.getLogger(__name__)


VIEW_TABLE = TableKind("materialized_view", MaterializedViewError, "repair what was written to, or rebuild the job")


class StampedTable:
    """
    A table that one job writes.

    :param spark: the session to write with.
    :param path: canonical location.
    :param kind: the table's kind, for messages.
    :param storage_options: options of the object store, as deltalake takes them.
    """

    def __init__(
        self, spark: SparkSession, path: str, kind: TableKind, storage_options: Mapping[str, str] | None = None
    ) -> None:
        self.path = path
        self.spark = spark
        self._kind = kind
        self.log = DeltaLog(path, storage_options)
        self._options = storage_options

    @property
    def sql_name(self) -> str:
        """The table's name in Spark SQL."""
        return f"delta.{quote(self.path)}"

    def read(self) -> DataFrame:
        """Return the table's rows as of now."""
        return self.spark.read.format("delta").load(self.path)

    # -------------------------------------------------------------------------------------------------- writes

    def append(self, rows: DataFrame, part: str, identity: ViewIdentity, barrier: Barrier) -> None:
        """Append rows, once per epoch and part."""

        def write() -> None:
            (
                rows.write.format("delta")
                .mode("append")
                .option("txnAppId", transaction_id(identity, part))
                .option("txnVersion", barrier.epoch)
                .option("userMetadata", json.dumps(stamp_for(barrier, part)))
                .save(self.path)
            )

        self._once(part, identity, barrier, write, may_be_empty=False)

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
            with self.committing(stamp_for(barrier, part), transaction):
                self.spark.sql(statement).collect()

        if not self._once(part, identity, barrier, write, may_be_empty=True):
            self.append(self.read().limit(0), part, identity, barrier)

    def make_once(self, statement: str, identity: ViewIdentity, *, order: int) -> None:
        """
        Make the table of an incarnation, unless it exists, or that of a later incarnation does.

        :param order: the incarnation's number among those of its job. It is the version of a transaction that all of
            them share, so a process that a rebuild overtook can never replace the new table by its own empty one.
        :raises MaterializedViewError: if the path holds another table afterwards.
        """
        transaction = {_TRANSACTION_ID: creation_id(identity), _TRANSACTION_VERSION: str(order)}

        def write() -> None:
            with self.committing({"event": "create", "incarnation": identity.incarnation}, transaction):
                self.spark.sql(statement).collect()

        failure = _attempt(write)
        if failure is not None:
            # Another process may have made it meanwhile, despite the error.
            remove_what_was_not_committed(self.path)
        try:
            found = view_identity(self.path, self._options)
        except MaterializedViewError:
            # The failed write may have left files at the path, which are not the cause of the failure.
            if failure is None:
                raise
            raise failure from None
        if found == identity:
            return
        if failure is not None:
            raise failure
        raise MaterializedViewError(
            f"materialized_view: {self.path} holds the view of a later rebuild of job {identity.job}; nothing is left "
            "to do for this one"
        )

    def use_up(self, transaction: str) -> None:
        """Make Delta skip every later write with a transaction id."""
        self._write_nothing(transaction, _FENCE, {"event": "fence"})

    def fence(self, part: str, identity: ViewIdentity, barrier: Barrier) -> bool:
        """
        Make Delta skip every later write of a part of an epoch, unless the part is written.

        The first in the table's log wins: both use the same transaction, so a written part prevents the fence.

        :returns: whether the part is written.
        :raises BackfillError: if the log shows neither.
        """
        written = self._fenced_or_written(part, identity, barrier)
        if written is not None:
            return written
        stamp = stamp_for(barrier, part, event=GIVEN_UP)
        failure = _attempt(lambda: self._write_nothing(transaction_id(identity, part), barrier.epoch, stamp))
        written = self._fenced_or_written(part, identity, barrier)
        if written is not None:
            return written
        if failure is not None:
            raise failure
        raise EpochFailedError(
            f"epoch {barrier.epoch}: {self.path} shows neither part {part} nor that it is given up; run the epoch again"
        )

    def _fenced_or_written(self, part: str, identity: ViewIdentity, barrier: Barrier) -> bool | None:
        """Return whether a part is written (``True``) or fenced (``False``); ``None`` if neither."""
        try:
            return self.is_written(part, identity, barrier) or None
        except EpochGivenUpError:
            return False

    def _write_nothing(self, transaction: str, version: int, stamp: Mapping[str, object]) -> None:
        (
            self.read()
            .limit(0)
            .write.format("delta")
            .mode("append")
            .option("txnAppId", transaction)
            .option("txnVersion", version)
            .option("userMetadata", json.dumps(stamp))
            .save(self.path)
        )

    @contextmanager
    def committing(self, stamp: Mapping[str, object], transaction: Mapping[str, str] | None = None) -> Iterator[None]:
        """Set the stamp and the transaction of commits of SQL statements."""
        with session_settings(self.spark, {_USER_METADATA: json.dumps(stamp), **(transaction or {})}):
            yield

    # ------------------------------------------------------------------------------------------------- the log

    def is_written(self, part: str, identity: ViewIdentity, barrier: Barrier) -> bool:
        """
        Return whether the table's log shows the barrier's commit of a part.

        :raises MaterializedViewError: if the epoch was committed from another plan.
        :raises EpochFailedError: if a later epoch wrote the part; then there is nothing left to do for this one.
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
                        f"part {part} of epoch {barrier.epoch} of job {identity.job} was given up, as version "
                        f"{commit.version} of {self.path} says; this attempt does not write it"
                    )
                return True
            else:
                raise self._kind.error(
                    f"{self._kind.name}: version {commit.version} of {self.path} holds epoch {epoch} of job "
                    f"{identity.job} from another plan than the pinned one; rebuild the job"
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
        Refuse a table with a history that does not continue the previous epoch's.

        :param since: the version that the previous epoch left; ``None`` before the first.
        :returns: the newest version.
        :raises BackfillError: of the table's kind, saying what was found.
        """
        newest, kind = self.log.newest(), self._kind
        if since is None:
            return newest
        if newest.version < since.version:
            raise kind.error(
                f"{kind.name}: {self.path} is at version {newest.version}, but epoch {barrier.prev_epoch} left it at "
                f"{since.version}; it was replaced: rebuild the job"
            )
        written_at = newest.written_at if newest.version == since.version else self.log.written_at(since.version)
        if None not in (written_at, since.written_at) and written_at != since.written_at:
            raise kind.error(
                f"{kind.name}: version {since.version} of {self.path} was written at {written_at}, but the one that "
                f"epoch {barrier.prev_epoch} left at {since.written_at}; an older copy was put back and written on: "
                "rebuild the job"
            )
        return newest

    def require_untouched(self, identity: ViewIdentity, barrier: Barrier, since: TableVersion | None) -> None:
        """
        Refuse a table that anything but this epoch wrote to since the previous one.

        :param since: the version that the previous epoch left; ``None`` before the first.
        :raises BackfillError: of the table's kind, naming a foreign version, or one that is missing from the log.
        """
        kind = self._kind
        oldest = self.log.versions()[-1] + 1
        for commit in self.commits_back(identity):
            if commit.version < oldest - 1 or (since is not None and commit.version <= since.version):
                break
            if not (is_ours(commit, identity, barrier, since) or is_harmless(commit)):
                if commit.operation.endswith(("COLUMN", "COLUMNS")):
                    raise kind.error(
                        f"{kind.name}: version {commit.version} of {self.path} ({commit.operation}) changed the "
                        f"table's columns, and job {identity.job} needs those that it made it with: rebuild the job"
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
                f"{kind.name}: the log of {self.path} lacks version {oldest - 1}, so nobody can tell what was written "
                f"to it since epoch {barrier.prev_epoch}; {kind.remedy}"
            )

    def _once(
        self, part: str, identity: ViewIdentity, barrier: Barrier, write: Callable[[], None], *, may_be_empty: bool
    ) -> bool:
        """Write unless it was written, and return whether the log shows the write; nothing but the log counts."""
        if self.is_written(part, identity, barrier):
            return True
        failure = _attempt(write)
        if self.is_written(part, identity, barrier):
            return True
        if failure is not None and self._lost_to_compaction(failure, identity):
            # Another compaction so soon is unlikely, so one retry is enough.
            logger.info("part %s of epoch %d lost to a compaction of %s; once more", part, barrier.epoch, self.path)
            failure = _attempt(write)
            if self.is_written(part, identity, barrier):
                return True
        if failure is not None:
            raise failure
        self._require_unused(part, identity, barrier)
        # A statement that changes nothing may leave no commit; in this Delta a DELETE leaves none, a MERGE one.
        if not may_be_empty:
            raise EpochFailedError(
                f"epoch {barrier.epoch}: Delta reported part {part} as written, but {self.path} does not show it; "
                "run the epoch again"
            )
        return False

    def _require_unused(self, part: str, identity: ViewIdentity, barrier: Barrier) -> None:
        """Refuse a write that Delta skips as committed although its commit is no longer in the log."""
        seen = self.log.transaction_version(transaction_id(identity, part))
        if seen is not None and seen >= barrier.epoch:
            raise self._kind.error(
                f"{self._kind.name}: part {part} of epoch {barrier.epoch} was written to {self.path}, but the commit "
                "that says from which plan was cleaned up before the epoch was done; rebuild the job, and let no epoch "
                "lie longer than delta.logRetentionDuration"
            )

    def _lost_to_compaction(self, failure: Exception, identity: ViewIdentity) -> bool:
        """Return whether no commit since the job's own newest write changes rows."""
        if not is_conflict(failure):
            return False
        for commit in self.commits_back(identity):
            if commit.changes_data or commit.replaces_metadata:
                return stamp_of(commit).get("incarnation") == identity.incarnation
        return False


def _attempt(write: Callable[[], None]) -> PySparkException | Py4JJavaError | None:
    """Write, and return the error; the log shows whether the write succeeded anyway."""
    try:
        write()
    except (PySparkException, Py4JJavaError) as error:
        # Spark passes Delta's own errors, such as a conflict, to Python unchanged.
        return error
    return None
