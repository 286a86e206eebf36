"""Describes a compaction for a task's log, for the output of its Spark application and for the terminal."""

from __future__ import annotations

from collections.abc import Iterator

from airflow_backfill_provider.core import text
from airflow_backfill_provider.core.status.compaction import CompactionPlan, CompactionStep
from airflow_backfill_provider.jobs.maintenance.compaction import JobCompaction


def look_lines(found: JobCompaction) -> Iterator[str]:
    """Yield the plan of a compaction, a line for each table."""
    for name, plan in _tables(found):
        yield f"{name}: {_files(plan)}; {_verdict(plan)}"


def done_lines(done: JobCompaction) -> Iterator[str]:
    """Yield what a compaction did, a line for each table, or one line if nothing was due."""
    if not done.due:
        yield "nothing to compact"
    for name, plan in _tables(done):
        if plan.step is CompactionStep.COMPACT:
            yield f"{name}: {text.files(plan.files)} became {plan.files - plan.saved_files:,}"
        elif plan.step is CompactionStep.PURGE:
            yield f"{name}: deleted rows are purged, {text.percent(plan.deleted_share)} of the stored rows"


def _tables(found: JobCompaction) -> Iterator[tuple[str, CompactionPlan]]:
    yield "view", found.view
    yield from found.own_tables.items()


def _files(plan: CompactionPlan) -> str:
    deleted = f", {text.percent(plan.deleted_share)} of the rows deleted" if plan.deleted_share else ""
    return f"{text.files(plan.files)}{deleted}"


def _verdict(plan: CompactionPlan) -> str:
    if plan.step is CompactionStep.PURGE:
        return "due, to purge deleted rows"
    saves = f"a compaction saves {text.files(plan.saved_files)}"
    return f"due: {saves}" if plan.step is CompactionStep.COMPACT else f"not due: {saves}"
