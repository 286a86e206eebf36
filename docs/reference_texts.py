"""What the tables of ``reference.md`` say where the code doesn't: types, defaults, columns, and help with errors."""

from __future__ import annotations

from airflow_backfill_provider.core.settings import SettingsChange

JOB_TYPES = {
    "name": "text of `a`–`z`, `0`–`9`, `_`; at most 100",
    "upstream": "mapping, see below",
    "materialized_view": "absolute path or URI",
    "query": "text",
    "strategy": "`auto`, `no_shuffle` or `arrangement`",
    "vnode_count": "whole number, 1 to 32768",
    "paused": "true or false",
    "rate_limit": "whole number from 0, or null",
    "parallelism": "whole number, 1 to `vnode_count`; above 1 only with `arrangement` or `auto`",
    "visibility": "`every_epoch` or `on_finish`; with `on_finish` the distribution key must be of key columns, unless "
    "the strategy is `no_shuffle`",
    "keep_arrangement": "true or false",
    "restrict_to": "mapping, see below",
    "state": "absolute path or URI",
    "table_properties": "mapping of text to text",
}

JOB_DEFAULTS = {"state": "`_backfill/<name>` beside the view", "table_properties": "none", "restrict_to": "all of it"}

UPSTREAM_FIELDS = {
    "path": ("absolute path or URI", "the Delta table to read; it must have a change data feed"),
    "key": ("list of columns", "the columns that identify a row, most significant first; see below"),
    "distribution_key": (
        "list of column names",
        "the columns that a vnode is computed from; `no_shuffle` needs no vnodes, but for `restrict_to` and repairs",
    ),
}

UPSTREAM_DEFAULTS = {"distribution_key": "the key"}

KEY_FIELDS = {
    "column": ("text", "the column's name, as the upstream spells it"),
    "descending": ("true or false", "read from the largest value to the smallest; nulls still come first"),
}

RESTRICTION_FIELDS = {
    "vnodes": ("list of numbers and ranges", "the vnodes that the view is about, such as `[0-15, 20]`"),
    "keys": ("mapping, see below", "a range of keys"),
}

RESTRICTION_DEFAULTS = {"vnodes": "all", "keys": "all"}

BOUNDS_FIELDS = {
    "after": ("list of values", "exclusive lower bound: a value for each key column, or for the leading ones"),
    "up_to": ("list of values", "inclusive upper bound likewise"),
}

BOUNDS_DEFAULTS = {"after": "from the first key", "up_to": "to the last key"}

STATUS_FIELDS = {
    "name": "the job's name",
    "strategy": "the strategy decided on; never `auto`",
    "paused": "whether the job is paused",
    "cancelled": "whether the job was cancelled",
    "rate_limit": "snapshot rows per epoch; null is unlimited, 0 reads none",
    "vnodes": "how many vnodes are where: `total`, `not_started`, `in_progress`, `completed`",
    "upstream_latest_version": "the upstream's newest version",
}

SETTINGS_COLUMNS = {
    "sequence": "number of the change, from 1; the highest one is in force",
    "change": ", ".join(f"`{change.value}`" for change in SettingsChange),
    "paused": "whether barriers read no snapshot",
    "rate_limit": "snapshot rows per epoch; null is unlimited, 0 reads none",
    "cancelled": "whether no barrier is injected any more",
    "finished_epoch": "the epoch as of which the view was marked finished; null before",
    "incarnation": "changes with every rebuild",
    "requested_by": "a task run of Airflow, or `user@host`",
    "requested_at": "when",
    "record": "the whole record as JSON: the definition, the upstream's table id and columns, and the above",
}

LOG_COLUMNS = {
    "epoch": "the epoch",
    "event": "`injected`: the barrier is pinned. `reported`: a run that shares the epoch did its step. "
    "`committed`: the epoch is done. `failed`: an attempt failed. `given_up`: what is left of the epoch is done, "
    "[the rest never will be](concepts.md#epochs-that-are-given-up)",
    "incarnation": "the incarnation that the epoch belongs to",
    "from_version": "last upstream version of the epoch before. In the first -1, under `arrangement` the version that "
    "the arrangement was made of",
    "to_version": "last upstream version of this epoch",
    "mutations": "changes of the settings that the barrier carries",
    "requested_by": "who asked for the barrier",
    "snapshot_read_row_count": "upstream rows in the chunk, before the query's filter",
    "upstream_output_row_count": "net changes let through, before the query's filter",
    "watermark": "commit time of the upstream's `to_version`",
    "seconds": "wall-clock seconds of the attempt that reported or committed; of runs side by side, the slowest one's",
    "at": "when it was pinned, reported, committed or given up, or when the attempt failed",
    "record": "the whole barrier, report, commit or failure as JSON; of `given_up`, what stands for the barrier, and "
    "the commit",
}

STATE_COLUMNS = {
    "vnode": "the virtual node, from 0",
    "order_id": "one column for each key column, with its name and type: the position. A name that the table has "
    "already gets `key_` before it",
    "has_position": "whether the key columns are a position; nulls alone could be one of a null key",
    "backfill_finished": "whether the vnode is Completed",
    "row_count": "snapshot rows read so far: under `no_shuffle` **by the whole job**, under `arrangement` of the vnode",
    "epoch": "the epoch that wrote the row",
    "incarnation": "the incarnation that it belongs to",
}

VERIFICATION_COLUMNS = {
    "number": "number of the verification, from 1",
    "event": "`asked`: the next run of an epoch is to verify. `begun`: what is compared is pinned. `compared`: a step "
    "is done",
    "incarnation": "the incarnation that is verified",
    "epoch": "the epoch that is verified",
    "upstream_version": "the upstream's version that the view is compared at",
    "view_version": "the view's version that is compared",
    "first_vnode": "the first vnode of the step",
    "last_vnode": "the last vnode of the step",
    "expected_rows": "rows that the query gives, of these vnodes",
    "found_rows": "rows that the view has, of these vnodes",
    "differing_vnodes": "vnodes that differ",
    "differing_keys": "keys that differ",
    "requested_by": "who asked for the verification",
    "at": "when it was begun, or the step was done",
    "record": "what is compared, or what the step found, as JSON",
}

WHAT_TO_DO = {
    "InvalidJobError": "correct what it names; [rebuild](how-to/rebuild.md) if the job exists",
    "UpstreamError": "what it says",
    "UpstreamNotFoundError": "check `upstream.path`, and the storage options of an object store",
    "ChangeDataFeedDisabledError": "run the `ALTER TABLE` that it prints; [rebuild](how-to/rebuild.md) if the feed was "
    "off meanwhile",
    "ChangeFeedGapError": "[rebuild](how-to/rebuild.md), and [keep changes longer](how-to/set-retention.md)",
    "UpstreamReplacedError": "[rebuild](how-to/rebuild.md) if the table that lies there now is the right one",
    "UpstreamSchemaChangedError": "undo the change, or adapt the query, [rebuild](how-to/rebuild.md)",
    "MissingRowsError": "have Spark write the upstream's files anew, and [repair](how-to/repair-rows.md) all vnodes, "
    "or [rebuild](how-to/rebuild.md)",
    "DuplicateKeyError": "remove the duplicates and run again; or give `upstream.key` the columns that identify a row, "
    "and [rebuild](how-to/rebuild.md) if the job exists",
    "MaterializedViewError": "choose another folder; if something else wrote to the view, "
    "[repair](how-to/repair-rows.md) what it wrote to, or [rebuild](how-to/rebuild.md)",
    "StateError": "what it says",
    "JobNotCreatedError": "create the job",
    "StateLayoutError": "upgrade the package, or [recover the tables](how-to/recover-after-a-failure.md)",
    "LocationNotAllowedError": "choose a folder under an allowed root, or have "
    "[`AIRFLOW_BACKFILL_ALLOWED_ROOTS`](security.md) changed",
    "DataFileError": "restore the file from a copy; or repair its table, and [rebuild](how-to/rebuild.md)",
    "TableLogError": "restore the table from a copy, or [rebuild](how-to/rebuild.md)",
    "JobCancelledError": "[rebuild](how-to/rebuild.md) to start over",
    "NotFinishedError": "run more epochs",
    "ConcurrentUpdateError": "try again",
    "StorageUnavailableError": "check the storage, its options, rights and room; then try again",
    "StorageOptionsError": "give the credential [in a way that both have](how-to/use-an-object-store.md)",
    "SparkUnavailableError": "install what it names",
    "InvalidRemoteError": "write it as `sc://host:port`",
    "SparkServerUnavailableError": "start the server, or give the right token; see "
    "[a warm engine](how-to/keep-a-warm-engine.md)",
    "SparkSettingError": "give the setting to the server, and leave it out here",
    "QueryFailedError": "correct the row and run again; or let the query say what such a row gives, and "
    "[rebuild](how-to/rebuild.md)",
    "EpochFailedError": "run again; if it fails the same way, mend the cause that it names",
    "EpochGivenUpError": "run the next epoch, which is pinned anew; `status` says why this one was given up",
    "InvalidConnectionError": "correct the connection",
    "InvalidPolicyError": "correct what it names",
    "NotVerifiedError": "[verify](how-to/verify-a-view.md) the view; run an epoch before, if none was",
    "VersionGoneError": "[verify](how-to/verify-a-view.md) anew",
    "VerificationFailedError": "restore what it names, or [rebuild](how-to/rebuild.md)",
    "ViewDiffersError": "[repair what differs](how-to/repair-rows.md)",
    "CompactionFailedError": "try again, best [while no epoch runs](how-to/keep-files-good.md)",
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
    "strategy_tables": "versions of the strategy's own tables (`arrangement`) after the epoch's writes, and when "
    "they were written; empty without any",
    "watermark": "commit time of the upstream's `to_version`",
    "committed_at": "when",
}
