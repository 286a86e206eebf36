"""
The materialized view's table: made, written and looked after by one engine under one identity.

Every write carries a transaction id, (job, incarnation, part), whose version is the epoch, and the digest of the pinned
barrier. Delta skips a version that it has seen; whether a skipped or conflicting write was ours is read from the
view's own log, never assumed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from airflow_backfill_provider.core.barrier import Barrier
from airflow_backfill_provider.core.errors import EpochFailedError, MaterializedViewError
from airflow_backfill_provider.core.query import quote
from airflow_backfill_provider.engine.source import APPEARED, IS_UPSERT
from airflow_backfill_provider.engine.spark_errors import DUPLICATE_KEY
from airflow_backfill_provider.lake.delta_log import Commit, DeltaLog
from airflow_backfill_provider.lake.view_identity import (
    FINISHED_PROPERTY,
    INCARNATION_PROPERTY,
    JOB_PROPERTY,
    ViewIdentity,
    view_identity,
    view_properties,
)

_TRANSACTION_ID = "spark.databricks.delta.write.txnAppId"
_TRANSACTION_VERSION = "spark.databricks.delta.write.txnVersion"
_USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"

_FENCE = 2**62

_HARMLESS_METADATA = frozenset({"SET TBLPROPERTIES", "UNSET TBLPROPERTIES", "CHANGE COLUMN", "CLUSTER BY"})


class Part(StrEnum):
    """The two writes of an epoch."""

    CHANGES = "changes"
    SNAPSHOT = "snapshot"


def transaction_id(identity: ViewIdentity, part: Part) -> str:
    """Return the transaction id of a part of the job's epochs."""
    return f"airflow-backfill/{identity.job}/{identity.incarnation}/{part.value}"


class MaterializedView:
    """
    The view's Delta table.

    :param spark: the session to write with.
    :param path: canonical location.
    :param storage_options: options of the object store, as deltalake takes them.
    """

    def __init__(self, spark: SparkSession, path: str, storage_options: Mapping[str, str] | None = None) -> None:
        self.path = path
        self._spark = spark
        self._options = storage_options
        self._log = DeltaLog(path, storage_options)

    @property
    def sql_name(self) -> str:
        """The table's name in Spark SQL."""
        return f"delta.{quote(self.path)}"

    # ------------------------------------------------------------------------------------------------- identity

    def identity(self) -> ViewIdentity | None:
        """
        Return whose table lies at the path, ``None`` if there is none.

        :raises MaterializedViewError: if something lies there that is no materialized view of this package.
        """
        return view_identity(self.path, self._options)

    def require_usable(self, job: str, incarnations: frozenset[str]) -> ViewIdentity | None:
        """
        Refuse a path that does not belong to a job.

        :param incarnations: the job's own ones, so far; empty before it is created.
        :returns: whose table lies there: the job's own, or nobody's.
        :raises MaterializedViewError: if another table, another job's view, or files lie there.
        """
        found = self.identity()
        if found is not None and (found.job != job or found.incarnation not in incarnations):
            raise MaterializedViewError(
                f"materialized_view: {self.path} holds the view of job {found.job}, whose control tables are not at "
                f"the state of job {job}; choose another folder, set the job's state, or delete the view"
            )
        return found

    def ensure(
        self,
        empty: DataFrame,
        identity: ViewIdentity,
        earlier_incarnations: frozenset[str],
        properties: Mapping[str, str],
    ) -> None:
        """
        Make the empty table of an incarnation exist; replace that of an earlier incarnation of the job.

        :param empty: no rows, in the view's columns.
        :raises MaterializedViewError: if another table lies at the path.
        """
        incarnations = earlier_incarnations | {identity.incarnation}
        found = self.require_usable(identity.job, incarnations)
        if found == identity:
            return
        if found is not None:
            # A zombie of the old incarnation could append after the replacement, so its ids are used up first.
            for part in Part:
                self._use_up(transaction_id(found, part))
        ours = {JOB_PROPERTY: identity.job, INCARNATION_PROPERTY: identity.incarnation, FINISHED_PROPERTY: "false"}
        assignments = ", ".join(f"{_text(name)} = {_text(value)}" for name, value in {**properties, **ours}.items())
        verb = "CREATE TABLE IF NOT EXISTS" if found is None else "REPLACE TABLE"
        relation = f"backfill_view_{identity.incarnation}"
        empty.createOrReplaceTempView(relation)
        with self._committing({"event": "create", "incarnation": identity.incarnation}):
            self._spark.sql(
                f"{verb} {self.sql_name} USING delta TBLPROPERTIES ({assignments}) AS SELECT * FROM {relation}"
            )
        self._spark.catalog.dropTempView(relation)
        self.require_usable(identity.job, incarnations)

    def mark_finished(self, identity: ViewIdentity, epoch: int) -> None:
        """Publish that the view is finished, unless it says so already."""
        properties = view_properties(self.path, self._options) or {}
        if properties.get(FINISHED_PROPERTY) == "true" or self.identity() != identity:
            return
        with self._committing({"event": "finish", "incarnation": identity.incarnation, "epoch": epoch}):
            self._spark.sql(f"ALTER TABLE {self.sql_name} SET TBLPROPERTIES ('{FINISHED_PROPERTY}' = 'true')")

    # -------------------------------------------------------------------------------------------------- writes

    def merge(
        self, changes: DataFrame, keys: Sequence[str], columns: Sequence[str], identity: ViewIdentity, barrier: Barrier
    ) -> None:
        """
        Apply net changes, once per epoch.

        A key that appeared while the view has it already makes the merge fail: from then on the upstream would have
        two rows of that key and the view one.

        :param changes: the view's columns and the flags of
            :meth:`~airflow_backfill_provider.engine.source.Upstream.net_changes`; ``__is_upsert`` false deletes.
        :param keys: the view's key columns.
        :param columns: the view's columns.
        """
        on = " AND ".join(f"view.{quote(key)} <=> change.{quote(key)}" for key in keys)
        assignments = ", ".join(f"view.{quote(name)} = change.{quote(name)}" for name in columns)
        refusal = f"view.{quote(keys[0])} = raise_error('{DUPLICATE_KEY}')"
        names = ", ".join(quote(name) for name in columns)
        values = ", ".join(f"change.{quote(name)}" for name in columns)
        relation = f"backfill_changes_{identity.incarnation}_{barrier.epoch}"
        changes.createOrReplaceTempView(relation)

        def write() -> None:
            transaction = {
                _TRANSACTION_ID: transaction_id(identity, Part.CHANGES),
                _TRANSACTION_VERSION: str(barrier.epoch),
            }
            with self._committing(_stamp(barrier, Part.CHANGES), transaction):
                self._spark.sql(
                    f"MERGE INTO {self.sql_name} AS view USING {relation} AS change ON {on} "
                    f"WHEN MATCHED AND change.{APPEARED} AND change.{IS_UPSERT} THEN UPDATE SET {refusal} "
                    f"WHEN MATCHED AND NOT change.{IS_UPSERT} THEN DELETE "
                    f"WHEN MATCHED THEN UPDATE SET {assignments} "
                    f"WHEN NOT MATCHED AND change.{IS_UPSERT} THEN INSERT ({names}) VALUES ({values})"
                ).collect()

        try:
            self._once(Part.CHANGES, identity, barrier, write, may_be_empty=True)
        finally:
            self._spark.catalog.dropTempView(relation)

    def append(self, rows: DataFrame, identity: ViewIdentity, barrier: Barrier) -> None:
        """Append a chunk, once per epoch."""

        def write() -> None:
            (
                rows.write.format("delta")
                .mode("append")
                .option("txnAppId", transaction_id(identity, Part.SNAPSHOT))
                .option("txnVersion", barrier.epoch)
                .option("userMetadata", json.dumps(_stamp(barrier, Part.SNAPSHOT)))
                .save(self.path)
            )

        self._once(Part.SNAPSHOT, identity, barrier, write, may_be_empty=False)

    # ------------------------------------------------------------------------------------------------- the log

    def version(self) -> int:
        """Return the table's newest version."""
        return self._log.versions()[-1]

    def is_written(self, part: Part, identity: ViewIdentity, barrier: Barrier) -> bool:
        """
        Tell whether the view's log shows the barrier's commit of a part.

        :raises MaterializedViewError: if the epoch was committed from another plan.
        :raises EpochFailedError: if a later epoch wrote the part; then there is nothing left to do for this one.
        """
        overtaken_by = None
        for commit in self._commits_back(identity):
            epoch = commit.transactions.get(transaction_id(identity, part))
            if epoch is None:
                continue
            if epoch < barrier.epoch:
                break
            if epoch > barrier.epoch:
                overtaken_by = epoch
            elif _stamp_of(commit).get("digest") == barrier.digest:
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

    def require_untouched(self, identity: ViewIdentity, barrier: Barrier, since_version: int | None) -> None:
        """
        Refuse a view that anything but this job's epochs wrote to.

        :param since_version: the version that the previous epoch left; ``None`` before the first.
        :raises MaterializedViewError: naming the foreign version.
        """
        if self.identity() != identity:
            raise MaterializedViewError(
                f"materialized_view: {self.path} is not the view of job {identity.job} any more (it was dropped or "
                "replaced); rebuild the job"
            )
        newest = self.version()
        if since_version is not None and newest < since_version:
            raise MaterializedViewError(
                f"materialized_view: {self.path} is at version {newest}, but epoch {barrier.prev_epoch} left it at "
                f"{since_version}; it was replaced: rebuild the job"
            )
        for commit in self._commits_back(identity):
            if since_version is not None and commit.version <= since_version:
                return
            if not _is_ours(commit, identity, barrier) and not _is_harmless(commit):
                raise MaterializedViewError(
                    f"materialized_view: version {commit.version} of {self.path} ({commit.operation}) was not written "
                    f"by job {identity.job}; only the job may write to its view: rebuild the job"
                )

    def _commits_back(self, identity: ViewIdentity) -> Iterator[Commit]:
        """Yield commits from the newest back to the one that created the incarnation's table."""
        for version in reversed(self._log.versions()):
            commit = self._log.commit(version)
            if commit is None:
                return
            yield commit
            stamp = _stamp_of(commit)
            if stamp.get("event") == "create" and stamp.get("incarnation") == identity.incarnation:
                return

    def _once(
        self, part: Part, identity: ViewIdentity, barrier: Barrier, write: Callable[[], None], *, may_be_empty: bool
    ) -> None:
        """Write unless it was written, and believe only the log."""
        if self.is_written(part, identity, barrier):
            return
        failure: PySparkException | None = None
        try:
            write()
        except PySparkException as error:
            failure = error
        if self.is_written(part, identity, barrier):
            return
        if failure is not None:
            raise failure
        # Delta writes no commit for a merge that changes nothing.
        if not may_be_empty:
            raise EpochFailedError(
                f"epoch {barrier.epoch}: Delta reported the {part.value} as written, but {self.path} does not show "
                "them; run the epoch again"
            )

    def _use_up(self, transaction: str) -> None:
        (
            self._spark.read.format("delta")
            .load(self.path)
            .limit(0)
            .write.format("delta")
            .mode("append")
            .option("txnAppId", transaction)
            .option("txnVersion", _FENCE)
            .option("userMetadata", json.dumps({"event": "fence"}))
            .save(self.path)
        )

    @contextmanager
    def _committing(self, stamp: Mapping[str, object], transaction: Mapping[str, str] | None = None) -> Iterator[None]:
        """Set what commits of SQL statements carry; the settings are the session's, so they are unset again."""
        settings = {_USER_METADATA: json.dumps(stamp), **(transaction or {})}
        for name, value in settings.items():
            self._spark.conf.set(name, value)
        try:
            yield
        finally:
            for name in settings:
                self._spark.conf.unset(name)


def _text(value: str) -> str:
    """Return a string literal of Spark SQL."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _stamp(barrier: Barrier, part: Part) -> dict[str, object]:
    """Return what the commit of a part says of itself; the watermark only once the view is complete (design §5.13)."""
    watermark = {"watermark": barrier.upstream.watermark.isoformat()} if barrier.shows_all_rows else {}
    return {
        "event": "epoch",
        "job": barrier.job,
        "incarnation": barrier.incarnation,
        "epoch": barrier.epoch,
        "part": part.value,
        "digest": barrier.digest,
        **watermark,
    }


def _stamp_of(commit: Commit) -> dict[str, object]:
    try:
        stamp = json.loads(commit.user_metadata or "{}")
    except ValueError:
        return {}
    return stamp if isinstance(stamp, dict) else {}


def _is_ours(commit: Commit, identity: ViewIdentity, barrier: Barrier) -> bool:
    stamp = _stamp_of(commit)
    if stamp.get("incarnation") != identity.incarnation:
        return False
    earlier = isinstance(stamp.get("epoch"), int) and int(str(stamp["epoch"])) < barrier.epoch
    return stamp.get("event") in {"create", "finish"} or earlier or stamp.get("digest") == barrier.digest


def _is_harmless(commit: Commit) -> bool:
    return not commit.changes_data and (not commit.replaces_metadata or commit.operation in _HARMLESS_METADATA)
