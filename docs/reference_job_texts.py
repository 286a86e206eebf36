"""What the table of a job's fields says where the code doesn't: types and defaults."""

from __future__ import annotations

JOB_TYPES = {
    "name": "text of `a`–`z`, `0`–`9`, `_`; at most 100",
    "upstream": "mapping, see below",
    "upstreams": "mapping of names to such mappings",
    "lead": "text",
    "materialized_view": "absolute path or URI, or `catalog.schema.table`",
    "view_path": "absolute path or URI",
    "refresh": "`incremental`, `full` or `auto`",
    "query": "text",
    "strategy": "`auto`, `snapshot`, `no_shuffle`, `arrangement`, `cdc` or `source`",
    "vnode_count": "whole number, 1 to 32768",
    "paused": "true or false",
    "rate_limit": "whole number from 0, `auto`, or null",
    "target_epoch_seconds": "number above 0, at most 86400; only with `rate_limit: auto`",
    "max_rows_per_second": "whole number from 1, or null",
    "parallelism": "whole number, 1 to `vnode_count`; above 1 only with `snapshot`, `arrangement`, `source` or `auto`",
    "visibility": "`every_epoch` or `on_finish`; `snapshot` needs `on_finish`, and it is the default there; with "
    "`arrangement` and `on_finish` the distribution key must be of key columns, except for groups; `cdc` and `source` "
    "refuse `on_finish`",
    "keep_arrangement": "true or false",
    "restrict_to": "mapping, see below",
    "backfill_from": "mapping, see below",
    "as_of": "version of the upstream, a time with its zone, or `oldest`",
    "state": "absolute path or URI",
    "table_properties": "mapping of text to text",
    "partition_by": "list of columns",
    "cluster_by": "list of at most four columns",
    "target_file_size": "whole number of bytes from 1, or a size such as `256mb`",
    "row_tracking": "true or false",
    "valid_by": "`version`, `commit_time` or `epoch`",
    "keep": "`latest`, `deleted` or `history`",
    "star": "`freeze` or `follow`; `follow` needs a star in the query, and Delta upstreams",
    "cut_over": "`auto` or `on_approval`",
    "cut_over_timeout_hours": "number above 0, at most 8760; only with `cut_over: on_approval`",
}

JOB_DEFAULTS = {
    "target_epoch_seconds": "60",
    "view_path": "in the folder of the schema",
    "state": "`_backfill/<name>` beside the view",
    "table_properties": "none",
    "partition_by": "none",
    "cluster_by": "none",
    "target_file_size": "128 MiB",
    "restrict_to": "all of it",
    "backfill_from": "the view is computed",
    "as_of": "required with `backfill_from`; with `keep`, now",
    "cut_over_timeout_hours": "for ever",
}
