"""
The (vnode, key) pairs that change in a window of upstream versions, read without Spark to plan on an arrangement.

An epoch adds its window's changes to the arrangement and then reads its chunk. So a planner must know the changes
before they are added: they may be a hundred times the rows of one chunk, all in one vnode.
"""

from __future__ import annotations

from contextlib import suppress

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from airflow_backfill_provider.core.epoch.settings import JobSettings
from airflow_backfill_provider.core.scan.columns import OwnColumns
from airflow_backfill_provider.core.scan.keys import KeyField
from airflow_backfill_provider.lake.files.key_index import arrow_type, keys_within, plain_names
from airflow_backfill_provider.lake.files.vnode_hash import vnodes_of
from airflow_backfill_provider.lake.store.storage import panics_as_errors
from airflow_backfill_provider.lake.tables.chunk_keys import hashed_fields
from airflow_backfill_provider.lake.tables.data_files import physical_names_of

MOST_CHANGES = 2_000_000
"""The most rows of a change feed that a planner reads."""

_TYPE, _VERSION = "_change_type", "_commit_version"
_UPSERTS = pa.array(["insert", "update_postimage"])


def window_changes(table: DeltaTable, settings: JobSettings, from_version: int) -> pa.Table | None:
    """
    Return the net change of each (vnode, key) of a job that changed after a version.

    :param table: the upstream, opened at the window's end.
    :param from_version: the version after which the window begins.
    :returns: vnode and key, whether there is a row now, and whether there was none before; ``None`` if only Spark can
        read the changes, or there are too many of them.
    """
    fields = hashed_fields(settings.definition, settings.types)
    mapped = any(name != stored for name, stored in physical_names_of(table).items())
    if fields is None or mapped:
        return None
    key, job = settings.key_order, settings.definition
    columns = {field.name: field for field in (*key.fields, *fields)}
    feed = _feed(table, from_version, columns) if table.version() > from_version else _empty_feed(columns)
    if feed is None:
        return None
    vnodes, own = vnodes_of(feed, fields, job.vnode_count), settings.own_columns
    covered = feed.append_column(own.vnode, vnodes).filter(
        pc.is_in(vnodes, value_set=pa.array(sorted(job.vnodes), pa.int32()))
    )
    return _net(keys_within(covered, key, settings.keys), key.names, own)


def _feed(table: DeltaTable, from_version: int, columns: dict[str, KeyField]) -> pa.Table | None:
    """Return the changes in the types of the key; ``None`` if there are too many, or deltalake cannot read them."""
    names = [*columns, _TYPE, _VERSION]
    types = [*map(arrow_type, columns.values()), pa.string(), pa.int64()]
    batches: list[pa.RecordBatch] = []
    rows = 0
    with suppress(DeltaError, ValueError, OSError, pa.ArrowException), panics_as_errors():
        # deltalake parses column names as SQL.
        quoted = ['"' + name.replace('"', '""') + '"' for name in names]
        feed = pa.RecordBatchReader.from_stream(table.load_cdf(from_version + 1, table.version(), columns=quoted))
        for batch in feed:
            batches.append(batch)
            rows += batch.num_rows
            if rows > MOST_CHANGES:
                return None
        found = pa.Table.from_batches(batches, feed.schema)
        typed = {name: found.column(name).cast(kind) for name, kind in zip(names, types, strict=True)}
        partitioned = typed.keys() & {*table.metadata().partition_columns}
        return pa.table(typed | {name: _without_empty(typed[name]) for name in partitioned})
    return None


def _without_empty(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a partition column's values with null in place of an empty one, which means null in Delta's log."""
    if not (pa.types.is_string(values.type) or pa.types.is_binary(values.type)):
        return values
    return pc.if_else(pc.equal(pc.binary_length(values), 0), None, values)


def _empty_feed(columns: dict[str, KeyField]) -> pa.Table:
    types = {name: arrow_type(field) for name, field in columns.items()}
    return pa.schema({**types, _TYPE: pa.string(), _VERSION: pa.int64()}.items()).empty_table()


def _net(feed: pa.Table, key: tuple[str, ...], own: OwnColumns) -> pa.Table:
    """
    Return the net change of each (vnode, key).

    Within one version an upsert wins over a removal, and the last version wins over the earlier ones.
    """
    keys = pa.table([feed.column(own.vnode), *(feed.column(name) for name in key)], plain_names(len(key) + 1))
    is_upsert = pc.is_in(feed.column(_TYPE), value_set=_UPSERTS)
    changes = keys.append_column("upsert", is_upsert).append_column("removal", pc.invert(is_upsert))
    by_version = changes.append_column("version", feed.column(_VERSION)).group_by(
        [*keys.column_names, "version"], use_threads=False
    )
    versions = by_version.aggregate([("upsert", "any"), ("removal", "any")]).sort_by("version")
    grouped = versions.group_by(keys.column_names, use_threads=False)
    net = grouped.aggregate([("upsert_any", "last"), ("removal_any", "first")])
    columns = [*(net.column(name) for name in keys.column_names), net.column("upsert_any_last")]
    return pa.table(
        [*columns, pc.invert(net.column("removal_any_first"))], [own.vnode, *key, own.is_upsert, own.appeared]
    )
