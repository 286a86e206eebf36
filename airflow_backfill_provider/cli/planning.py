"""The dry run: what creating and running a job would do, before anything is written and without a JVM."""

from __future__ import annotations

import math

from deltalake import DeltaTable
from pydantic import BaseModel, ConfigDict
from rich.console import Console

from airflow_backfill_provider import creation
from airflow_backfill_provider.backfill import Backfill
from airflow_backfill_provider.cli import text
from airflow_backfill_provider.core.job import BackfillJob, Strategy
from airflow_backfill_provider.core.planner import ChunkPlan, plan_chunk
from airflow_backfill_provider.core.progress import BackfillState, position_of


class BackfillPlan(BaseModel):
    """
    What lies before a job.

    :param created: whether the job exists; then this is about what is left of it.
    :param reason: why this strategy.
    :param rows: rows of the upstream by the log's statistics.
    :param rows_left: those not read yet.
    :param bytes: bytes of the upstream's data files, all columns.
    :param epochs: epochs that reading the rest takes; ``None`` while no snapshot is read.
    :param first_epoch_files: data files that the next epoch has to look into.
    """

    model_config = ConfigDict(frozen=True)

    name: str
    created: bool
    strategy: str
    reason: str
    upstream_version: int
    files: int
    rows: int
    rows_left: int
    bytes: int
    rate_limit: int | None
    epochs: int | None
    first_epoch_files: int
    first_epoch_rows_scanned: int
    first_epoch_bytes: int
    warnings: tuple[str, ...]


def make_plan(backfill: Backfill) -> BackfillPlan:
    """
    Plan a job as it stands.

    :raises BackfillError: if the definition or the upstream could not be used.
    """
    job, upstream, store = backfill.job, backfill.upstream, backfill.store
    strategy = creation.decide_strategy(job)
    described = upstream.at()
    creation.resolve_upstream(job, described)
    created = store.created()
    if created:
        settings = backfill.require_created()
        described.require_as_created(settings.upstream, upstream.path)
        state, rate_limit, reads = store.state(), settings.rate_limit, settings.reads_snapshot
    else:
        state, rate_limit = BackfillState.initial(job.vnode_count), job.rate_limit
        reads = rate_limit != 0
    order = described.key_order(job.upstream.key)
    files, keys = upstream.files(described.version, order)
    rows = sum(file.row_count for file in files)
    rows_left = 0 if state.completed else max(rows - state.shared.row_count, 0)
    chunk = None
    if reads and not state.completed:
        chunk = plan_chunk(files, after=position_of(state.shared), rate_limit=rate_limit, order=order, keys=keys)
    return BackfillPlan(
        name=job.name,
        created=created,
        strategy=strategy.value,
        reason=_reason(job, chunk),
        upstream_version=described.version,
        files=len(files),
        rows=rows,
        rows_left=rows_left,
        bytes=sum(file.size for file in files),
        rate_limit=rate_limit,
        epochs=_epochs(rows_left, rate_limit) if chunk else (0 if state.completed else None),
        first_epoch_files=chunk.scanned_files if chunk else 0,
        first_epoch_rows_scanned=chunk.scanned_rows if chunk else 0,
        first_epoch_bytes=chunk.scanned_bytes if chunk else 0,
        warnings=(*(chunk.warnings if chunk else ()), *(() if created else _view_warnings(backfill))),
    )


def show_plan(plan: BackfillPlan, console: Console) -> None:
    """Print a plan for a person."""
    limit = "unlimited" if plan.rate_limit is None else f"{text.rows(plan.rate_limit)} per epoch"
    lines = {
        "strategy": f"{plan.strategy}: {plan.reason}",
        "upstream": f"{text.rows(plan.rows)}, {text.size(plan.bytes)} in {plan.files:,} files "
        f"as of version {plan.upstream_version}",
        "rate limit": limit,
        "to read": f"{text.rows(plan.rows_left)}{_in_epochs(plan)}",
    }
    if plan.epochs:
        lines["next epoch"] = (
            f"looks into {plan.first_epoch_files:,} of {plan.files:,} files "
            f"({text.rows(plan.first_epoch_rows_scanned)}, {text.size(plan.first_epoch_bytes)})"
        )
    console.print(f"{plan.name}: {'created already; what is left' if plan.created else 'not created yet'}")
    for name, value in lines.items():
        console.print(f"  {name:<12}{value}")
    for warning in plan.warnings:
        console.print(f"  {'warning':<12}{warning}")
    if not plan.created:
        console.print("nothing was written; create looks at the query's names and types and at the keys, too")


def _in_epochs(plan: BackfillPlan) -> str:
    if plan.epochs is None:
        return "; paused: no epoch reads any of it"
    if plan.epochs == 0:
        return "; the backfill is complete, epochs apply changes alone"
    return f" in {'one epoch' if plan.epochs == 1 else f'about {plan.epochs:,} epochs'}"


def _epochs(rows_left: int, rate_limit: int | None) -> int:
    # An empty upstream takes an epoch, too: the one that finds it empty.
    return max(math.ceil(rows_left / rate_limit), 1) if rate_limit else 1


def _reason(job: BackfillJob, chunk: ChunkPlan | None) -> str:
    if job.strategy is not Strategy.AUTO:
        return "the job asks for it"
    if chunk is None:
        return "chosen by auto"
    if chunk.warnings:
        return "chosen by auto for want of another, although it does not suit this upstream; see the warning"
    if chunk.chunk.up_to is None:
        return "chosen by auto, because one epoch reads all there is in place"
    return "chosen by auto, because the files' statistics bound each chunk"


def _view_warnings(backfill: Backfill) -> list[str]:
    view = backfill.job.materialized_view
    if not DeltaTable.is_deltatable(view, storage_options=dict(backfill.storage_options or {}) or None):
        return []
    return [f"there is a table at {view} already; create refuses one that is not this job's"]
