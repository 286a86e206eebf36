"""
A Delta table of which every commit says what it belongs to: the view, and the arrangement.

Every write carries a transaction id, (job, incarnation, part), whose version is the epoch, and the digest of the pinned
barrier. Delta skips a version that it has seen; whether a skipped or conflicting write was ours is read from the
table's own log, never assumed.
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
from airflow_backfill_provider.core.errors import EpochFailedError, MaterializedViewError
from airflow_backfill_provider.core.query import quote
from airflow_backfill_provider.engine.session import session_settings
from airflow_backfill_provider.engine.spark_errors import is_conflict
from airflow_backfill_provider.lake.delta_log import Commit, DeltaLog, stamp_of
from airflow_backfill_provider.lake.view_identity import ViewIdentity, view_identity

CHANGES = "changes"
"""The part of an epoch that merges its changes into the view."""

ARRANGEMENT = "arrangement"
"""The part of an epoch that appends the changes of rows not read yet to the arrangement."""

_TRANSACTION_ID = "spark.databricks.delta.write.txnAppId"
_TRANSACTION_VERSION = "spark.databricks.delta.write.txnVersion"
_USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"

_FENCE = 2**62

logger = logging.getLogger(__name__)

CHANGES_REMOVAL = "changes-removal"
"""The part of an epoch that removes changed keys from a view that nobody reads yet; :data:`CHANGES` then appends."""

REPAIR_REMOVAL = "repair-removal"
"""The part of an epoch that removes what is repaired from the view."""

REPAIR = "repair"
"""The part of an epoch that writes what is repaired anew."""


OF_CHANGES = (CHANGES_REMOVAL, CHANGES, REPAIR_REMOVAL, REPAIR)
"""All parts of an epoch that write to the view, but those of its chunk."""


def snapshot_part(part: int) -> str:
    """Return the name of the write of a part of the chunk."""
    return f"snapshot/{part}"


def transaction_id(identity: ViewIdentity, part: str) -> str:
    """Return the transaction id of a part of the job's epochs."""
    return f"airflow-backfill/{identity.job}/{identity.incarnation}/{part}"


def creation_id(identity: ViewIdentity) -> str:
    """Return the transaction id of making the table, which all incarnations of a job share."""
    return f"airflow-backfill/{identity.job}/creation"


class StampedTable:
    """
    A table that one job writes.

    :param spark: the session to write with.
    :param path: canonical location.
    :param storage_options: options of the object store, as deltalake takes them.
    """

    def __init__(self, spark: SparkSession, path: str, storage_options: Mapping[str, str] | None = None) -> None:
        self.path = path
        self.spark = spark
        self.log = DeltaLog(path, storage_options)
        self._options = storage_options

    @property
    def sql_name(self) -> str:
        """The table's name in Spark SQL."""
        return f"delta.{quote(self.path)}"

    def version(self) -> int:
        """Return the table's newest version."""
        return self.log.versions()[-1]

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
                .option("userMetadata", json.dumps(_stamp(barrier, part)))
                .save(self.path)
            )

        self._once(part, identity, barrier, write, may_be_empty=False)

    def run(self, statement: str, part: str, identity: ViewIdentity, barrier: Barrier) -> None:
        """
        Run a statement that changes rows, once per epoch and part.

        It leaves its transaction also where it has nothing to change: without, a replay after the chunk was appended
        could delete a row that moved into it.
        """

        def write() -> None:
            transaction = {
                _TRANSACTION_ID: transaction_id(identity, part),
                _TRANSACTION_VERSION: str(barrier.epoch),
            }
            with self.committing(_stamp(barrier, part), transaction):
                self.spark.sql(statement).collect()

        if not self._once(part, identity, barrier, write, may_be_empty=True):
            self.append(self.read().limit(0), part, identity, barrier)

    def make_once(self, statement: str, identity: ViewIdentity, *, order: int) -> None:
        """
        Make the table of an incarnation, unless somebody made it, or that of a later incarnation.

        :param order: the incarnation's number among those of its job. It is the version of a transaction that all of
            them share, so that whoever was overtaken by a rebuild cannot put its empty table in the place of the new
            one, however late it goes on.
        :raises MaterializedViewError: if the table is another one afterwards.
        """
        transaction = {_TRANSACTION_ID: creation_id(identity), _TRANSACTION_VERSION: str(order)}

        def write() -> None:
            with self.committing({"event": "create", "incarnation": identity.incarnation}, transaction):
                self.spark.sql(statement).collect()

        failure = _attempt(write)
        found = view_identity(self.path, self._options)
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
        (
            self.read()
            .limit(0)
            .write.format("delta")
            .mode("append")
            .option("txnAppId", transaction)
            .option("txnVersion", _FENCE)
            .option("userMetadata", json.dumps({"event": "fence"}))
            .save(self.path)
        )

    @contextmanager
    def committing(self, stamp: Mapping[str, object], transaction: Mapping[str, str] | None = None) -> Iterator[None]:
        """Set what commits of SQL statements carry."""
        with session_settings(self.spark, {_USER_METADATA: json.dumps(stamp), **(transaction or {})}):
            yield

    # ------------------------------------------------------------------------------------------------- the log

    def is_written(self, part: str, identity: ViewIdentity, barrier: Barrier) -> bool:
        """
        Tell whether the table's log shows the barrier's commit of a part.

        :raises MaterializedViewError: if the epoch was committed from another plan.
        :raises EpochFailedError: if a later epoch wrote the part; then there is nothing left to do for this one.
        """
        overtaken_by = None
        for commit in self.commits_back(identity):
            epoch = commit.transactions.get(transaction_id(identity, part))
            if epoch is None:
                if _is_of_earlier_epoch(commit, identity, barrier):
                    break
                continue
            if epoch < barrier.epoch:
                break
            if epoch > barrier.epoch:
                overtaken_by = epoch
            elif stamp_of(commit).get("digest") == barrier.digest:
                return True
            else:
                raise MaterializedViewError(
                    f"version {commit.version} of {self.path} holds epoch {epoch} of job {identity.job} from another "
                    "plan than the pinned one; rebuild the job"
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
            stamp = stamp_of(commit)
            if stamp.get("event") == "create" and stamp.get("incarnation") == identity.incarnation:
                return

    def _once(
        self, part: str, identity: ViewIdentity, barrier: Barrier, write: Callable[[], None], *, may_be_empty: bool
    ) -> bool:
        """Write unless it was written, believe only the log, and return whether it shows the write."""
        if self.is_written(part, identity, barrier):
            return True
        failure = _attempt(write)
        if self.is_written(part, identity, barrier):
            return True
        if failure is not None and self._lost_to_compaction(failure, identity):
            # So soon there is no other.
            logger.info("part %s of epoch %d lost to a compaction of %s; once more", part, barrier.epoch, self.path)
            failure = _attempt(write)
            if self.is_written(part, identity, barrier):
                return True
        if failure is not None:
            raise failure
        # A statement that changes nothing may leave no commit; in this Delta a DELETE leaves none, a MERGE one.
        if not may_be_empty:
            raise EpochFailedError(
                f"epoch {barrier.epoch}: Delta reported part {part} as written, but {self.path} does not show it; "
                "run the epoch again"
            )
        return False

    def _lost_to_compaction(self, failure: Exception, identity: ViewIdentity) -> bool:
        """Tell whether all that was committed since the job's own newest write changes no row."""
        if not is_conflict(failure):
            return False
        for commit in self.commits_back(identity):
            if commit.changes_data or commit.replaces_metadata:
                return stamp_of(commit).get("incarnation") == identity.incarnation
        return False


def _attempt(write: Callable[[], None]) -> PySparkException | Py4JJavaError | None:
    """Write, and return what went wrong; whether it was written all the same, the log tells."""
    try:
        write()
    except (PySparkException, Py4JJavaError) as error:
        # Spark gives Delta's own errors, a conflict among them, to Python as they are.
        return error
    return None


def _is_of_earlier_epoch(commit: Commit, identity: ViewIdentity, barrier: Barrier) -> bool:
    """Tell whether an earlier epoch wrote a commit: it was done before this one began, so nothing of this is older."""
    stamp = stamp_of(commit)
    if stamp.get("event") != "epoch" or stamp.get("incarnation") != identity.incarnation:
        return False
    return int(str(stamp["epoch"])) < barrier.epoch


def _stamp(barrier: Barrier, part: str) -> dict[str, object]:
    """Return what the commit of a part says of itself; the watermark only once the view is complete."""
    watermark = {"watermark": barrier.upstream.watermark.isoformat()} if barrier.completes else {}
    return {
        "event": "epoch",
        "job": barrier.job,
        "incarnation": barrier.incarnation,
        "epoch": barrier.epoch,
        "part": part,
        "digest": barrier.digest,
        **watermark,
    }
