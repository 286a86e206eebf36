"""What the tests of Delta upstreams share: key orders, instants, and what a job was created on."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
from deltalake import DeltaTable

from airflow_backfill_provider.core.epoch.settings import ResolvedUpstream, UpstreamColumn
from airflow_backfill_provider.core.scan.keys import KeyField, KeyOrder
from airflow_backfill_provider.sources.delta.source import DeltaSource
from tests.builders import (
    NOW,
    commit_file,
)


def order_by(*names, kind="long"):
    return KeyOrder(tuple(KeyField(name=name, type=kind) for name in names))


def as_created(described, **types):
    return ResolvedUpstream(
        table_id=described.table_id,
        columns=tuple(UpstreamColumn(name=n, type=t) for n, t in (types or described.types).items()),
    )


def at_minute(minute):
    return NOW + dt.timedelta(minutes=minute)


def mapped(path, *columns):
    """Make a table with column mapping, which delta-rs can read but not write."""
    fields = [pa.field(name, kind, metadata={"stored": stored}) for name, kind, stored in columns]
    DeltaTable.create(str(path), pa.schema(fields))
    log = commit_file(path, 0)
    written = log.read_text(encoding="utf-8").replace(r"\"stored\"", r"\"delta.columnMapping.physicalName\"")
    log.write_text(written, encoding="utf-8")
    return DeltaSource(str(path))
