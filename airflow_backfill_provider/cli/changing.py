"""Changes the query of a view from a terminal."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from airflow_backfill_provider.cli.jobs import user
from airflow_backfill_provider.cli.rebuilding import jobs_downstream
from airflow_backfill_provider.core.status.change_text import WAITS_LINE, done_line, downstream_line, missed_line
from airflow_backfill_provider.jobs.backfill import Backfill
from airflow_backfill_provider.jobs.changed_columns import columns_missed_by
from airflow_backfill_provider.jobs.changed_query import ProposedChange, make_change, may_change, propose_change

if TYPE_CHECKING:
    from airflow_backfill_provider.engine.spark_engine import SparkEngine


def is_another(backfill: Backfill) -> bool:
    """Return whether the job's file has another definition than its finished view."""
    if not backfill.store.created():
        return False
    settings = backfill.settings()
    if not may_change(settings):
        return False
    created = settings.definition
    return backfill.job.placed_like(created).definition() != created.definition()


def described(backfill: Backfill) -> dict[str, object]:
    """Return what the change of a job is, ready for JSON."""
    proposed = propose_change(backfill.job, store=backfill.store, upstream=backfill.upstream)
    return {
        "name": backfill.job.name,
        "change": {
            "class": proposed.change.kind.value,
            "reason": proposed.change.reason,
            "needs_rebuild": bool(proposed.why_impossible()),
            "why_rebuild": proposed.why_impossible(),
            "upstream_rows": proposed.rows,
        },
    }


def propose(file: Path, backfill: Backfill) -> ProposedChange:
    """
    Print what the change of a job is, what it costs, and which jobs read its view.

    :param file: the job's file; those of the jobs downstream lie beside it.
    :raises BackfillError: if the job has no view that could follow.
    """
    proposed = propose_change(backfill.job, store=backfill.store, upstream=backfill.upstream)
    for line in proposed.lines:
        typer.echo(f"{backfill.job.name}: {line}")
    if proposed.change.kind.keeps_rows:
        return proposed
    for reader in jobs_downstream(file):
        gets = "has to be rebuilt, too" if proposed.why_impossible() else downstream_line(proposed.change.kind)
        typer.echo(f"{backfill.job.name}: job {reader.job.name} downstream {gets}")
    return proposed


def change_job(file: Path, backfill: Backfill, proposed: ProposedChange, *, engine: Callable[[], SparkEngine]) -> None:
    """
    Make the change that was printed.

    Prints what happens next, and which jobs downstream use a column that goes or gets another type.

    :param file: the job's file; those of the jobs downstream lie beside it.
    :raises InvalidJobError: if only a rebuild can make it.
    :raises BackfillError: as :func:`~airflow_backfill_provider.jobs.changed_query.make_change`.
    """
    settings = make_change(
        proposed, store=backfill.store, upstream=backfill.upstream, engine=engine, requested_by=user()
    )
    columns = None
    if settings.proposed is not None:
        done = WAITS_LINE
    elif settings.sequence == proposed.settings.sequence:
        done = "the definition is in force"
    elif proposed.is_in_force:
        done = "the definition stays as it is; the change that waited for an approval is given up"
    else:
        columns = proposed.columns_to(settings, backfill.store)
        done = done_line(proposed.change.kind, columns)
    typer.echo(f"{backfill.job.name}: {done}")
    if columns is None:
        return
    for reader in jobs_downstream(file):
        if missed := columns_missed_by(reader.settings(), proposed.job, columns):
            typer.echo(f"{backfill.job.name}: job {reader.job.name} downstream {missed_line(missed)}")
