"""Prints a dry run."""

from __future__ import annotations

from rich.console import Console
from rich.padding import Padding
from rich.table import Table

from airflow_backfill_provider.jobs.planning.plan import BackfillPlan
from airflow_backfill_provider.jobs.planning.plan_text import COST_COLUMNS, describe_plan


def show_plan(plan: BackfillPlan, console: Console) -> None:
    """Print a plan as text."""
    described = describe_plan(plan)
    console.print(described.heading)
    width = max(len(name) for name, _ in described.facts) + 2
    for name, value in described.facts:
        console.print(f"  {name:<{width}}{value}")
    table = Table(box=None, padding=(0, 2, 0, 0), title="a whole backfill, estimated", title_justify="left")
    for column in COST_COLUMNS:
        table.add_column(column, justify="left" if column == COST_COLUMNS[0] else "right")
    for row in described.costs:
        table.add_row(*row)
    console.print(Padding(table, (0, 0, 0, 2)))
    console.print(f"  {'':<{width}}{described.basis}")
    if described.closing:
        console.print(described.closing)
