"""
Converts models to rows of the control tables and back.

Each row of settings and log has its model as JSON, which is what this package reads, and columns for people's queries.
Rows of the per-vnode state have a column for each key column, of the same type.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import pyarrow as pa
from pydantic import BaseModel, ValidationError

from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.epoch.epoch_record import EpochCommit, EpochReport, GivenUpEpoch
from airflow_backfill_provider.core.epoch.failures import EpochFailure
from airflow_backfill_provider.core.epoch.settings import JobSettings
from airflow_backfill_provider.core.errors import StateLayoutError
from airflow_backfill_provider.core.scan.keys import KeyOrder, Position
from airflow_backfill_provider.core.scan.progress import (
    BackfillState,
    Completed,
    InProgress,
    NotStarted,
    VnodeProgress,
    position_of,
)
from airflow_backfill_provider.lake.files.key_index import arrow_type
from airflow_backfill_provider.state.recovery import what_to_do
from airflow_backfill_provider.state.stamps import CHECKSUM, VERSION

INJECTED = "injected"
REPORTED = "reported"
COMMITTED = "committed"
FAILED = "failed"
GIVEN_UP = "given_up"

SETTINGS_SCHEMA = pa.schema(
    [
        ("sequence", pa.int64()),
        ("change", pa.string()),
        ("paused", pa.bool_()),
        ("rate_limit", pa.int64()),
        ("cancelled", pa.bool_()),
        ("finished_epoch", pa.int64()),
        ("incarnation", pa.string()),
        ("requested_by", pa.string()),
        ("requested_at", pa.timestamp("us", "UTC")),
        ("record", pa.string()),
    ]
)

BARRIER_LOG_SCHEMA = pa.schema(
    [
        ("epoch", pa.int64()),
        ("event", pa.string()),
        ("incarnation", pa.string()),
        ("from_version", pa.int64()),
        ("to_version", pa.int64()),
        ("mutations", pa.string()),
        ("requested_by", pa.string()),
        ("snapshot_read_row_count", pa.int64()),
        ("upstream_output_row_count", pa.int64()),
        ("watermark", pa.timestamp("us", "UTC")),
        ("seconds", pa.float64()),
        ("at", pa.timestamp("us", "UTC")),
        ("record", pa.string()),
    ]
)

_STATE_COLUMNS_BEFORE_KEY = [("vnode", pa.int32())]
_STATE_COLUMNS_AFTER_KEY = [
    ("has_position", pa.bool_()),
    ("backfill_finished", pa.bool_()),
    ("row_count", pa.int64()),
    ("epoch", pa.int64()),
    ("incarnation", pa.string()),
]
_STATE_COLUMNS = {name for name, _ in (*_STATE_COLUMNS_BEFORE_KEY, *_STATE_COLUMNS_AFTER_KEY)}
_TAKEN = {*_STATE_COLUMNS, VERSION, CHECKSUM}

Model = TypeVar("Model", bound=BaseModel)


def settings_row(settings: JobSettings) -> pa.Table:
    """Return the row of a settings record."""
    row = {
        "sequence": settings.sequence,
        "change": settings.change.value,
        "paused": settings.paused,
        # The column holds numbers; the record says whether an empty one means auto or unlimited.
        "rate_limit": settings.rate_limit if isinstance(settings.rate_limit, int) else None,
        "cancelled": settings.cancelled,
        "finished_epoch": settings.finished_epoch,
        "incarnation": settings.incarnation,
        "requested_by": settings.requested_by,
        "requested_at": settings.requested_at,
        "record": settings.model_dump_json(),
    }
    return pa.Table.from_pylist([row], schema=SETTINGS_SCHEMA)


def barrier_row(barrier: Barrier) -> pa.Table:
    """Return the row of a pinned barrier."""
    row = {
        "epoch": barrier.epoch,
        "event": INJECTED,
        "incarnation": barrier.incarnation,
        "from_version": barrier.upstream.from_offset.number,
        "to_version": barrier.upstream.to_offset.number,
        "mutations": ", ".join(pinned.mutation.value for pinned in barrier.mutations),
        "requested_by": str(barrier.injected_by),
        "watermark": barrier.upstream.watermark,
        "at": barrier.injected_at,
        "record": barrier.model_dump_json(),
    }
    return pa.Table.from_pylist([row], schema=BARRIER_LOG_SCHEMA)


def report_row(barrier: Barrier, report: EpochReport) -> pa.Table:
    """Return the row of a report of one of the task runs that share an epoch."""
    counts = "upstream_output_row_count" if report.part is None else "snapshot_read_row_count"
    row = {
        "epoch": report.epoch,
        "event": REPORTED,
        "incarnation": report.incarnation,
        "from_version": barrier.upstream.from_offset.number,
        "to_version": barrier.upstream.to_offset.number,
        "requested_by": str(barrier.injected_by),
        counts: sum(report.rows.values()),
        "watermark": barrier.upstream.watermark,
        "seconds": sum(report.seconds.values()),
        "at": report.reported_at,
        "record": report.model_dump_json(),
    }
    return pa.Table.from_pylist([row], schema=BARRIER_LOG_SCHEMA)


def commit_row(barrier: Barrier, commit: EpochCommit) -> pa.Table:
    """Return the row of an epoch's commit."""
    return _done_row(barrier, commit, COMMITTED, commit)


def given_up_row(given_up: GivenUpEpoch) -> pa.Table:
    """Return the row of an epoch that was given up."""
    return _done_row(given_up.barrier, given_up.commit, GIVEN_UP, given_up)


def failure_row(barrier: Barrier, failure: EpochFailure) -> pa.Table:
    """Return the row of a failed attempt."""
    row = {
        "epoch": failure.epoch,
        "event": FAILED,
        "incarnation": failure.incarnation,
        "from_version": barrier.upstream.from_offset.number,
        "to_version": barrier.upstream.to_offset.number,
        "requested_by": str(barrier.injected_by),
        "watermark": barrier.upstream.watermark,
        "at": failure.at,
        "record": failure.model_dump_json(),
    }
    return pa.Table.from_pylist([row], schema=BARRIER_LOG_SCHEMA)


def _done_row(barrier: Barrier, commit: EpochCommit, event: str, record: BaseModel) -> pa.Table:
    row = {
        "epoch": commit.epoch,
        "event": event,
        "incarnation": commit.incarnation,
        "from_version": barrier.upstream.from_offset.number,
        "to_version": barrier.upstream.to_offset.number,
        "requested_by": str(barrier.injected_by),
        "snapshot_read_row_count": commit.snapshot_read_row_count,
        "upstream_output_row_count": commit.upstream_output_row_count,
        "watermark": commit.watermark,
        "seconds": sum(commit.seconds.values()),
        "at": commit.committed_at,
        "record": record.model_dump_json(),
    }
    return pa.Table.from_pylist([row], schema=BARRIER_LOG_SCHEMA)


def parse(model: type[Model], record: str, table: str) -> Model:
    """
    Parse the record of a row.

    :raises StateLayoutError: if it does not have the form that this package writes.
    """
    try:
        return model.model_validate_json(record)
    except ValidationError as error:
        fields = ", ".join(".".join(map(str, problem["loc"])) for problem in error.errors(include_url=False))
        raise StateLayoutError(
            f"a record of control table {table} is damaged or was written by another version of this package (wrong "
            f"fields: {fields}); {what_to_do(table)}"
        ) from error


def state_schema(order: KeyOrder) -> pa.Schema:
    """Return the columns of the per-vnode state: ``vnode, key…, backfill_finished, row_count, epoch`` and more."""
    names = _key_columns(order)
    key = [(names[field.name], arrow_type(field)) for field in order.fields]
    return pa.schema([*_STATE_COLUMNS_BEFORE_KEY, *key, *_STATE_COLUMNS_AFTER_KEY])


def state_rows(state: BackfillState, incarnation: str, order: KeyOrder) -> pa.Table:
    """Return one row per vnode."""
    schema = state_schema(order)
    positions = [position_of(progress) for progress in state.vnodes]
    count = len(positions)
    columns: dict[str, Sequence[object]] = {
        "vnode": range(count),
        "has_position": [position is not None for position in positions],
        "backfill_finished": [isinstance(progress, Completed) for progress in state.vnodes],
        "row_count": [progress.row_count for progress in state.vnodes],
        "epoch": [state.epoch] * count,
        "incarnation": [incarnation] * count,
    }
    for index, column in enumerate(_key_columns(order).values()):
        columns[column] = [None if position is None else position[index] for position in positions]
    return pa.table([pa.array(columns[name], schema.field(name).type) for name in schema.names], schema=schema)


def parse_state(rows: pa.Table, *, vnode_count: int, incarnation: str, order: KeyOrder, table: str) -> BackfillState:
    """
    Parse and check the per-vnode state.

    :raises StateLayoutError: if vnodes are missing or repeated, or have different epochs or incarnations.
    """
    rows = rows.sort_by("vnode")
    if rows.column("vnode").to_pylist() != list(range(vnode_count)):
        raise StateLayoutError(
            f"control table {table} has {rows.num_rows} rows, but not exactly one for each of the vnodes 0 to "
            f"{vnode_count - 1}, so something else wrote to it; {what_to_do(table)}"
        )
    epochs = rows.column("epoch").unique().to_pylist()
    if len(epochs) != 1 or rows.column("incarnation").unique().to_pylist() != [incarnation]:
        raise StateLayoutError(
            f"control table {table} mixes epochs {sorted(epochs)} or belongs to another incarnation of the job; "
            f"{what_to_do(table)}"
        )
    keys = zip(*(rows.column(column).to_pylist() for column in _key_columns(order).values()), strict=True)
    columns = (rows.column(name).to_pylist() for name in ("has_position", "backfill_finished", "row_count"))
    vnodes: list[VnodeProgress] = []
    before = None
    for recorded in zip(keys, *columns, strict=True):
        if recorded == before:
            # Under no_shuffle all vnodes are equal.
            vnodes.append(vnodes[-1])
            continue
        before = recorded
        key, has_position, finished, count = recorded
        vnodes.append(_progress(key if has_position else None, finished=finished, row_count=count))
    return BackfillState(epoch=epochs[0], vnodes=tuple(vnodes))


def _progress(position: Position | None, *, finished: bool, row_count: int) -> VnodeProgress:
    if finished:
        return Completed(position, row_count)
    return NotStarted() if position is None else InProgress(position, row_count)


def _key_columns(order: KeyOrder) -> dict[str, str]:
    """Return the state's column for each key column: the same name, unless the state uses it."""
    taken = {*_TAKEN, *(name.lower() for name in order.names if name.lower() not in _TAKEN)}
    columns = {}
    for name in order.names:
        column = name
        while column.lower() in (_TAKEN if column == name else taken):
            column = f"key_{column}"
        columns[name] = column
    return columns
