"""Compares what waits for an approval with the view that serves, on a terminal."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import typer

from airflow_backfill_provider.cli.jobs import requester
from airflow_backfill_provider.core.errors import NotFinishedError
from airflow_backfill_provider.core.status.difference_text import difference_lines, key_line, left_out, value_lines
from airflow_backfill_provider.core.status.view_difference import RowValues, ViewDifference
from airflow_backfill_provider.jobs.backfill import Backfill
from airflow_backfill_provider.jobs.verification import view_differences

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_backfill_provider.engine.spark_engine import SparkEngine


def compare(
    backfill: Backfill, engine: Callable[[], SparkEngine], *, with_values: bool
) -> tuple[ViewDifference, Sequence[RowValues]]:
    """
    Compare on Spark, and record the difference.

    :param with_values: whether to read the rows of the sampled keys again; they are recorded nowhere.
    """
    shown = view_differences.compare_waiting(backfill, comparer=lambda: engine().view_comparer(), requester=requester())
    return shown.recorded, shown.values(engine().view_comparer()) if with_values else ()


def newest(backfill: Backfill) -> ViewDifference:
    """
    Return the newest recorded difference of what waits.

    :raises NotFinishedError: if there is none.
    """
    found = view_differences.newest_difference(backfill)
    if found is None:
        raise NotFinishedError(
            f"job {backfill.job.name}: no difference of what waits is recorded; leave --recorded out to compare now"
        )
    return found


def show_difference(found: ViewDifference, values: Sequence[RowValues] = ()) -> None:
    """Print a difference with its sample of keys, and the values of these if they were asked for."""
    for line in difference_lines(found):
        typer.echo(f"{found.job}: {line}")
    rows_of = {one.key: value_lines(one) for one in values}
    for key in found.rows.sample:
        typer.echo(f"  {key_line(key)}")
        for line in rows_of.get(key.key, ()):
            typer.echo(f"    {line}")
    if left := left_out(found.rows):
        typer.echo(f"  and {left:,} more")
