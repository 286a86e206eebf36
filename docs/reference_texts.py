"""What the tables of the reference say where the code doesn't: types, defaults, columns, and help with errors."""

from __future__ import annotations

from airflow_backfill_provider.core.epoch.settings import SettingsChange
from airflow_backfill_provider.sources.shared.change_log.changes import LoggedKind

CATALOG_TABLE = (
    "`catalog.schema.table`",
    "the table's full name in a catalog, from which its path is looked up; see [catalogs](../how-to/use-a-catalog.md)",
)

UPSTREAM_FIELDS = {
    "table": CATALOG_TABLE,
    "path": ("absolute path or URI", "the Delta table; most jobs need a [change data feed](errors.md#what-is-refused)"),
    "key": ("list of columns", "the columns that identify a row, most significant first; see below"),
    "distribution_key": (
        "list of column names",
        "the columns that a vnode is computed from; `no_shuffle` needs no vnodes, but for `restrict_to` and repairs",
    ),
}

CATALOG_TABLE_DEFAULTS = {"table": "none", "path": "the location of `table`"}

UPSTREAM_DEFAULTS = {**CATALOG_TABLE_DEFAULTS, "distribution_key": "the key"}

POSTGRES_FIELDS = {
    "connection": (
        "text",
        "id of an Airflow connection of type Postgres, or else the name of a service in libpq's service file",
    ),
    "table": ("text", "the table with its schema, quoted as in SQL where that is necessary"),
    "key": (
        "list of columns",
        "the columns of the primary key, or of a unique index over columns that are never null",
    ),
    "distribution_key": (
        "list of column names",
        "the columns that a vnode is computed from, for `restrict_to` and repairs",
    ),
    "slot": (
        "text of `a`–`z`, `0`–`9`, `_`; at most 63",
        "the replication slot. Jobs that name the same slot must name the same `change_log`, and share both",
    ),
    "publication": ("text", "the publication that has the slot's tables"),
    "change_log": ("absolute path or URI", "location of the [change log](tables.md#the-change-logs-table)"),
    "as_text": (
        "list of column names",
        "columns to read as text: their type, or some of their values, have no counterpart. Arrays become JSON lists",
    ),
}

POSTGRES_DEFAULTS = {
    "distribution_key": "the key",
    "slot": "`airflow_backfill_<name>`",
    "publication": "the name of the slot",
    "change_log": "`change_log` in the folder `state`",
    "as_text": "none",
}

DEBEZIUM_FIELDS = {
    "path": ("absolute path or URI", "the Delta table of events; it must have a change data feed"),
    "key": ("list of columns", "the columns of the table's key"),
    "distribution_key": UPSTREAM_FIELDS["distribution_key"],
    "snapshot": ("mapping, see below", "the table in the database whose rows the events lack"),
}

DEBEZIUM_DEFAULTS = {"distribution_key": "the key", "snapshot": "rows come from the events"}

UPSERTS_FIELDS = {
    "path": ("absolute path or URI", "the Delta table of upserts; it must have a change data feed"),
    "ordered_by": (
        "list of column names",
        "the columns that order the rows of a key: whole numbers, dates or timestamps. The greatest counts",
    ),
    "deleted": ("column name", "a boolean column that is true for a key that is deleted"),
    "split": (
        "column name",
        "the column with the split that a row came from. A key with rows of two splits is refused",
    ),
    "key": ("list of columns", "the columns of the key"),
    "distribution_key": UPSTREAM_FIELDS["distribution_key"],
}

UPSERTS_DEFAULTS = {
    "distribution_key": "the key",
    "deleted": "keys are never deleted",
    "split": "all rows of a key are in one order",
}

SNAPSHOT_FIELDS = {
    "connection": POSTGRES_FIELDS["connection"],
    "table": POSTGRES_FIELDS["table"],
    "events_within": (
        "whole number, from 0",
        "the most seconds from a commit in the database until its events are in the lake. Rows wait so long",
    ),
}

KAFKA_FIELDS = {
    "connection": ("text", "id of an Airflow connection of the Kafka provider's type"),
    "topic": ("text", "the topic's name"),
    "value": ("mapping", "the [format](../how-to/backfill-from-kafka.md#formats) of the record's value"),
    "record_key": ("mapping", "the format of the record's key"),
    "unreadable_records": (
        "`fail` or `dead_letter`",
        "what an epoch does with records that their format cannot read: fail, or list them and leave them out",
    ),
    "lost_records": (
        "`fail` or `skip`",
        "what an epoch does if records are gone that the job has not read: fail, or go on with the oldest ones left",
    ),
    "key": ("list of columns", "always the partition and the offset; leave it out"),
    "distribution_key": ("list of column names", "always the partition; leave it out"),
}

APPEND_ONLY_FIELDS = {
    "table": CATALOG_TABLE,
    "path": ("text", "location of a Delta table"),
    "append_only": ("`true`", "says that rows are only appended, so that the table needs no change data feed"),
    "key": ("list of columns", "always `_backfill_split` and `_backfill_place`; leave it out"),
    "distribution_key": ("list of column names", "always `_backfill_split`; leave it out"),
}

FILES_FIELDS = {
    "path": ("text", "a folder; folders within it count, too"),
    "format": ("`json`, `csv` or `parquet`", "the format of all files"),
    "schema": ("text", "the columns and their types as SQL writes them"),
    "header": ("boolean", "of CSV: whether the first line of each file has the names of the columns"),
    "delimiter": ("text", "of CSV: the sign between two values"),
    "escape": ("text", "of CSV: what stands before a quote within a quoted value, a quote or a backslash"),
    "unreadable_records": (
        "`fail` or `dead_letter`",
        "what an epoch does with records that do not fit their columns: fail, or list them and leave them out",
    ),
    "key": ("list of columns", "always `_backfill_split` and `_backfill_place`; leave it out"),
    "distribution_key": ("list of column names", "always `_backfill_split`; leave it out"),
}

FILE_LOG_DEFAULTS = {
    "key": "`_backfill_split`, `_backfill_place`",
    "distribution_key": "`_backfill_split`",
}

APPEND_ONLY_DEFAULTS = {**CATALOG_TABLE_DEFAULTS, **FILE_LOG_DEFAULTS}

KAFKA_DEFAULTS = {
    "value": "`raw`",
    "record_key": "`raw`",
    "key": "`partition`, `offset`",
    "distribution_key": "`partition`",
}

CHANGE_LOG_COLUMNS = {
    "offset": "the offset of the transaction: where the record of its commit begins in the database's log, plus 1",
    "number": "the row's number in its transaction, from 1. With `offset` it identifies the row",
    "transaction": "the transaction's id, of 32 bits; 0 if the row is of no transaction",
    "committed_at": "when the transaction was committed, by the database's clock",
    "table": "the oid of the table; of a partition, that of its table; empty for a mark",
    "kind": "what the row is about; see below",
    "old": "column → text: of an update or a delete the old row, or the columns that identify it; otherwise null",
    "new": "column → text: of an insert or an update the new row. A long value that the update did not change may be "
    "missing. For other kinds see below",
}

LOGGED_KINDS = {
    LoggedKind.INSERT: "a new row",
    LoggedKind.UPDATE: "a changed row; if its key changed, `old` has the old key",
    LoggedKind.DELETE: "a deleted row",
    LoggedKind.TRUNCATE: "all rows of the table were removed",
    LoggedKind.PART_REMOVED: "rows came or went with a partition, and the database did not log them, or the table was "
    "not published for a while. `new` has a `text` that says so. A job that meets it is refused",
    LoggedKind.GAP: "the log does not have the changes up to here, of any table. `new` has a `text` that says why. A "
    "job that needs them is refused",
    LoggedKind.LANDED: "the log has had the changes up to here since `committed_at`. From then on it counts how long "
    "they are kept",
    LoggedKind.PARTITIONS: "the table's partitions from here on: `new` has the name of each by its oid, and `old` the "
    "transactions that gave it its place",
    LoggedKind.COLUMNS: "the table's columns from here on: `new` has the type of each, and `old` its number in the "
    "table, as far as that is known. A type without a counterpart is in angle brackets",
    LoggedKind.REWRITTEN: "values of columns changed, and no change of a row says so; `new` has the columns. A job "
    "that uses one of them is refused",
    LoggedKind.MARK: "a message of this package; `new` has its `text`. See "
    "[marks](#the-slot-the-publication-and-marks)",
}

KEY_FIELDS = {
    "column": ("text", "the column's name, as the upstream spells it"),
    "descending": ("true or false", "read from the largest value to the smallest; nulls still come first"),
}

STATUS_FIELDS = {
    "name": "the job's name",
    "strategy": "the chosen strategy; never `auto`",
    "paused": "whether the job is paused",
    "cancelled": "whether the job was cancelled",
    "vnodes": "the number of vnodes by progress: `total`, `not_started`, `in_progress`, `completed`",
    "upstream_latest_version": "the upstream's newest offset",
}

SETTINGS_COLUMNS = {
    "sequence": "number of the change, from 1; the highest one is in force",
    "change": ", ".join(f"`{change.value}`" for change in SettingsChange),
    "paused": "whether barriers read no snapshot",
    "rate_limit": "snapshot rows per epoch; null is unlimited or `auto`, as the record says, 0 reads none",
    "cancelled": "whether no barrier is injected any more",
    "finished_epoch": "the epoch with which the view was marked as finished; null before",
    "incarnation": "changes with every rebuild",
    "requested_by": "a task run of Airflow, or `user@host`",
    "requested_at": "when",
    "record": "the whole record as JSON: the definition, the upstream's table id and columns, and the above",
}

LOG_COLUMNS = {
    "epoch": "the epoch",
    "event": "`injected`: the barrier is pinned. `reported`: one of the task runs that share the epoch did its part. "
    "`committed`: the epoch is committed. `failed`: an attempt failed. `given_up`: the epoch was given up, and "
    "[its rest is never written](../concepts/recovery.md#epochs-that-are-given-up)",
    "incarnation": "the incarnation that the epoch belongs to",
    "from_version": "the window's `from_offset` as a number. In the first epoch -1; under `arrangement` the version "
    "that the arrangement was created from; under `cdc` where the slot begins. Null if offsets are not whole numbers, "
    "as those of a topic: `record` has them",
    "to_version": "the window's `to_offset` as a number, or null likewise",
    "mutations": "changes of the settings that take effect with the barrier",
    "requested_by": "who requested the barrier",
    "snapshot_read_row_count": "upstream rows in the chunk, before the query's filter",
    "upstream_output_row_count": "net changes that passed the position filter, before the query's filter; and of "
    "several upstreams, the changed rows of those that do not lead",
    "watermark": "commit time of the window's `to_offset`",
    "seconds": "wall-clock seconds of the attempt that reported or committed; for parallel parts, those of the slowest",
    "at": "when it was pinned, reported, committed or given up, or when the attempt failed",
    "record": "the whole barrier, report, commit or failure as JSON; for `given_up`, the reduced barrier and its "
    "commit",
}

STATE_COLUMNS = {
    "vnode": "the virtual node, from 0",
    "order_id": "one column for each key column, with its name and type: the position. A name that the table already "
    "uses gets the prefix `key_`",
    "has_position": "whether the key columns are a position; nulls could also be the position of a null key",
    "backfill_finished": "whether the vnode is Completed",
    "row_count": "snapshot rows read so far: under `no_shuffle` and `cdc` **by the whole job**, under `arrangement` "
    "and `source` of the vnode",
    "epoch": "the epoch that wrote the row",
    "incarnation": "the incarnation that it belongs to",
}

DIFFERENCE_COLUMNS = {
    "number": "number of the difference, from 1",
    "kind": "what waited: `backfill`, `rebuild` or `change`",
    "incarnation": "the incarnation of the view that waited; of a change, of the view that serves",
    "served_version": "the version of the view that serves; null if none does",
    "waiting_version": "the version of the view that waited; null of a changed query, which has no view yet",
    "rows_before": "rows of the view that serves",
    "rows_after": "rows of the view that waited",
    "added": "units that only the view that waited has",
    "removed": "units that only the view that serves has",
    "changed": "units that both have, with other values",
    "requested_by": "who asked for the difference",
    "at": "when the two were compared",
    "record": "the difference as JSON: with the columns that differ and the first keys, and no other values",
}

VERIFICATION_COLUMNS = {
    "number": "number of the verification, from 1",
    "event": "`asked`: a verification is requested. `begun`: what is compared is pinned. `compared`: a step is "
    "completed",
    "incarnation": "the incarnation that is verified",
    "epoch": "the epoch that is verified",
    "upstream_version": "the upstream's offset, as a number, that the view is compared at",
    "view_version": "the version of the view that is compared",
    "first_vnode": "the first vnode of the step",
    "last_vnode": "the last vnode of the step",
    "expected_rows": "rows that the query returns in these vnodes",
    "found_rows": "rows that the view has in these vnodes",
    "differing_vnodes": "the number of vnodes that differ",
    "differing_keys": "the number of keys that differ",
    "requested_by": "who requested the verification",
    "at": "when it was requested or begun, or when the step was completed",
    "record": "the request, what is compared, or the step's result, as JSON",
}

WHAT_TO_DO = {
    "InvalidJobError": "correct the field that it names; [rebuild](../how-to/rebuild.md) if the job exists",
    "UpstreamError": "do what the message says",
    "UpstreamNotFoundError": "check `upstream.path`, and the storage options of an object store; or the name of the "
    "table in the database, and the rights of the login",
    "ChangeDataFeedDisabledError": "run the `ALTER TABLE` in the message; [rebuild](../how-to/rebuild.md) if the feed "
    "was turned off after the job was created",
    "ChangeFeedGapError": "[rebuild](../how-to/rebuild.md), and [keep changes longer](../how-to/set-retention.md). If "
    "a replication slot is gone, see [what ends a job](../how-to/backfill-from-postgresql.md#what-ends-a-job); if "
    "records of a topic are gone, see [retention](../how-to/backfill-from-kafka.md#retention). If groups count rows "
    "that are gone, epochs go on, and the groups can be neither "
    "[verified nor repaired](../concepts/query.md#groups-of-rows-that-are-only-appended)",
    "UpstreamReplacedError": "[rebuild](../how-to/rebuild.md) if the present table is the right one; else restore it",
    "UpstreamSchemaChangedError": "undo the change, or adapt the query and [rebuild](../how-to/rebuild.md)",
    "MissingRowsError": "have Spark rewrite the upstream's files, and [repair](../how-to/repair-rows.md) all vnodes or "
    "[rebuild](../how-to/rebuild.md)",
    "DuplicateKeyError": "remove the duplicates and run again; or give `upstream.key` the columns that identify a row, "
    "and [rebuild](../how-to/rebuild.md) if the job exists",
    "CatalogError": "check the name, the schema, and the catalogs with which Spark is started; see "
    "[use a catalog](../how-to/use-a-catalog.md)",
    "CatalogUnavailableError": "nothing; the task retries",
    "MaterializedViewError": "choose another folder; if something else wrote to the view, "
    "[repair](../how-to/repair-rows.md) what it wrote to, or [rebuild](../how-to/rebuild.md)",
    "StateError": "do what the message says",
    "JobNotCreatedError": "create the job",
    "StateLayoutError": "upgrade the package, or [recover the tables](../how-to/recover-after-a-failure.md)",
    "ConnectionNotAllowedError": "name an allowed connection, or change "
    "[`AIRFLOW_BACKFILL_ALLOWED_CONNECTIONS`](../security.md#which-connections-jobs-may-name)",
    "LocationNotAllowedError": "choose a folder under an allowed root, or change "
    "[`AIRFLOW_BACKFILL_ALLOWED_ROOTS`](../security.md)",
    "UnsafeCommitsError": "start Spark with the log store that the message names; see [use an object "
    "store](../how-to/use-an-object-store.md#what-makes-commits-atomic)",
    "DataFileError": "restore the file from a copy; or repair its table, and [rebuild](../how-to/rebuild.md)",
    "TableLogError": "restore the damaged files of its log from a copy, or [rebuild](../how-to/rebuild.md)",
    "JobCancelledError": "[rebuild](../how-to/rebuild.md) to start over",
    "NotFinishedError": "run more epochs",
    "UpstreamNotFinishedError": "finish the job that it names; a task is skipped, and goes on by itself in a later DAG "
    "run. See [build a view on another view](../how-to/chain-views.md)",
    "ConcurrentUpdateError": "try again",
    "StorageUnavailableError": "check the storage, its options, permissions and free space; then try again",
    "UpstreamUnavailableError": "check the system and the network; then try again",
    "UpstreamRefusedError": "grant what the message names",
    "KafkaUnavailableError": "check the brokers and the network; then try again",
    "KafkaRefusedError": "correct the connection's login, or grant what the message names; see "
    "[backfill from Kafka](../how-to/backfill-from-kafka.md)",
    "RegistryUnavailableError": "check the registry and the network; then try again",
    "RegistryRefusedError": "correct the connection, or register what the message names",
    "DatabaseUnavailableError": "check the server and the network; then try again",
    "DatabaseRefusedError": "grant what the message names; see "
    "[backfill from PostgreSQL](../how-to/backfill-from-postgresql.md)",
    "UnsupportedValueError": "correct the row, or name the column in `as_text` and [rebuild](../how-to/rebuild.md)",
    "StorageOptionsError": "give the credential [in a way that both support](../how-to/use-an-object-store.md)",
    "SparkUnavailableError": "install what the message names",
    "InstallationError": "install the package again, or use a Python that is tested",
    "InvalidRemoteError": "write it as `sc://host:port`",
    "SparkServerUnavailableError": "start the server, or give the right token; see "
    "[a warm engine](../how-to/keep-a-warm-engine.md)",
    "SparkSettingError": "configure the server with the setting, and leave it out here",
    "QueryFailedError": "correct the row and run again; or make the query handle such rows, and "
    "[rebuild](../how-to/rebuild.md)",
    "EpochFailedError": "run again; if it fails the same way, correct the cause that the message names",
    "EpochGivenUpError": "run the next epoch, which pins a new barrier; `status` says why this one was given up",
    "InvalidConnectionError": "correct the connection",
    "InvalidPolicyError": "correct the value that it names",
    "RowNotTraceableError": "give `--yes`, and [why](../how-to/explain-a-row.md) starts Spark",
    "NotVerifiedError": "[verify](../how-to/verify-a-view.md) the view; before the first epoch, run one",
    "VersionGoneError": "start a [new verification](../how-to/verify-a-view.md); a view that cannot be put back needs "
    "a [rebuild](../how-to/rebuild.md) with its former definition",
    "VerificationFailedError": "restore what the message names, or [rebuild](../how-to/rebuild.md)",
    "AdoptedTableDiffersError": "correct the job, or [have it repaired](../how-to/adopt-a-table.md#if-it-differs)",
    "ViewDiffersError": "[repair what differs](../how-to/repair-rows.md)",
    "CompactionFailedError": "try again, preferably [while no epoch runs](../how-to/keep-files-good.md)",
}

REPORT_FIELDS = {
    "epoch": "the epoch",
    "incarnation": "the incarnation that it belongs to",
    "digest": "digest of the pinned barrier",
    "reported_at": "when",
}

COMMIT_FIELDS = {
    "epoch": "the epoch",
    "incarnation": "the incarnation that it belongs to",
    "digest": "digest of the pinned barrier",
    "view_written_at": "when that version's commit says that it was written; null if it does not",
    "strategy_tables": "versions of the strategy's own tables (`arrangement`, `read_ahead`) after the epoch's writes, "
    "and when they were written; empty without any",
    "watermark": "commit time of the upstream's `to_version`",
    "committed_at": "when",
}
