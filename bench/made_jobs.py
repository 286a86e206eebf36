"""Make jobs with any number of vnodes and any progress, without Spark."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import write_deltalake

from airflow_backfill_provider.core.clock import utc_now
from airflow_backfill_provider.core.epoch.settings import JobSettings, ResolvedUpstream, SettingsChange, UpstreamColumn
from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.core.scan.offset import HistoryPoint
from airflow_backfill_provider.core.scan.progress import BackfillState, Completed, InProgress, NotStarted, VnodeProgress
from airflow_backfill_provider.sources.delta.source import DeltaSource
from airflow_backfill_provider.state import records
from airflow_backfill_provider.state.control_table import ControlTable, Write
from airflow_backfill_provider.state.store import BackfillStore
from bench.many_files import ROWS_PER_FILE, make_file

WIDE_VNODES = 32_768


def make_job(folder: Path, name: str, vnode_count: int) -> BackfillJob:
    """Write the tables of a job with a few rows, in which every vnode has a different position."""
    upstream = str(folder / name / "orders")
    write_deltalake(
        upstream, pa.table({"id": range(10)}), mode="append", configuration={"delta.enableChangeDataFeed": "true"}
    )
    return make_job_over(
        upstream,
        state_of(vnode_count, epoch=1),
        name=name,
        key="id",
        strategy="arrangement",
        materialized_view=str(folder / name / "view"),
    )


def make_job_over(
    upstream: str,
    state: BackfillState,
    *,
    key: str,
    strategy: str,
    storage_options: Mapping[str, str] | None = None,
    **fields: Any,
) -> BackfillJob:
    """
    Write the tables of a job.

    :param state: the job's progress.
    :param key: the key, the only column of the view.
    :param storage_options: options of the object store, as deltalake takes them.
    :param fields: name and view, and other fields that differ from the defaults.
    """
    job = BackfillJob(
        upstream={"path": upstream, "key": [key]},
        query=f"SELECT {key} FROM upstream",
        strategy=strategy,
        vnode_count=len(state.vnodes),
        **fields,
    )
    described = DeltaSource(upstream, storage_options).at()
    settings = JobSettings(
        sequence=1,
        change=SettingsChange.CREATE,
        job=job.model_dump(mode="json"),
        strategy=strategy,
        shape="row",
        upstream=ResolvedUpstream(
            table_id=described.table_id, columns=(UpstreamColumn(name=key, type=described.types[key]),)
        ),
        incarnation="bench",
        # As after a rebuild, because no barrier log leads to this progress.
        base_epoch=state.epoch,
        start=HistoryPoint(offset=0) if strategy == "arrangement" else None,
        rate_limit=job.rate_limit,
        requested_by="bench",
        requested_at=utc_now(),
    )
    BackfillStore(job.state, storage_options).create(settings)
    # A store accepts only states of later epochs.
    rows = records.state_rows(state, settings.incarnation, settings.key_order)
    schema = records.state_schema(settings.key_order)
    table = ControlTable(f"{job.state}/{settings.state_table}", schema, storage_options)
    table.update(lambda _: Write(rows, "overwrite"))
    return job


def make_half_read_job(files: int, *, path: Path, upstream: str, **fields: Any) -> BackfillJob:
    """
    Write the tables of a job that has read half of the files of a table of :mod:`.many_files`, and one of them in part.

    :param files: the number of the table's files.
    :param path: the table's path on disk.
    :param upstream: its location.
    :param fields: as of :func:`make_job_over`.
    """
    middle, chunk = files // 2, files // 100
    position = middle * ROWS_PER_FILE + ROWS_PER_FILE // 2
    # The chunk begins and ends within these files; the others are never opened.
    make_file(path, middle)
    make_file(path, middle + chunk)
    return make_job_over(
        upstream,
        BackfillState(1, (InProgress((position,), position),) * 256),
        key="c0",
        strategy="no_shuffle",
        rate_limit=chunk * ROWS_PER_FILE,
        **fields,
    )


def state_of(vnode_count: int, epoch: int) -> BackfillState:
    """Return a state with vnodes that are NotStarted, InProgress and Completed."""

    def progress(vnode: int) -> VnodeProgress:
        if vnode < vnode_count // 3:
            return Completed(None, vnode)
        return InProgress((vnode * 7,), vnode) if vnode < 2 * vnode_count // 3 else NotStarted()

    return BackfillState(epoch=epoch, vnodes=tuple(progress(vnode) for vnode in range(vnode_count)))
