"""Describes a plan in words, with the same text in the terminal and in Airflow's UI."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_backfill_provider.core import text
from airflow_backfill_provider.core.job.rate_limit import described_limit
from airflow_backfill_provider.core.refresh_cost import described_break_even
from airflow_backfill_provider.core.status.adoption_text import to_stop
from airflow_backfill_provider.jobs.planning.plan import BackfillPlan
from airflow_backfill_provider.jobs.planning.upstream_text import change_facts, upstream_facts
from airflow_backfill_provider.strategies import KINDS
from airflow_backfill_provider.strategies.inputs import BYTES_PER_SECOND, SECONDS_PER_APPLICATION

COST_COLUMNS = ("strategy", "rows", "bytes read and sorted", "epochs", "applications", "hours")


@dataclass(frozen=True, slots=True)
class PlanText:
    """
    A plan in words.

    :param heading: the job, and whether it is created.
    :param facts: names and values of the plan; warnings come last.
    :param costs: the cost of a whole backfill, a row for each strategy with the columns :data:`COST_COLUMNS`.
    :param inputs: the assumptions of the estimate.
    :param closing: what the plan did not check; may be empty.
    """

    heading: str
    facts: tuple[tuple[str, str], ...]
    costs: tuple[tuple[str, ...], ...]
    basis: str
    closing: str


def describe_plan(plan: BackfillPlan) -> PlanText:
    """Describe a plan in words."""
    return PlanText(
        heading=f"{plan.name}: {'created already; the rest of it' if plan.created else 'not created yet'}",
        facts=(*_facts(plan), *(("warning", warning) for warning in plan.warnings)),
        costs=tuple(
            (
                strategy,
                f"{cost.rows:,}",
                text.size(cost.bytes),
                f"{cost.epochs:,}",
                f"{cost.spark_runs:,}",
                f"{cost.hours:,.2f}",
            )
            for strategy, cost in plan.estimates.items()
        ),
        basis=f"hours are a rough estimate: {BYTES_PER_SECOND // 1_000_000} MB/s for each parallel task run, and "
        f"{SECONDS_PER_APPLICATION} s for each Spark application",
        closing=""
        if plan.created
        else "nothing was written; create also checks the query's names and types, and the keys",
    )


def _facts(plan: BackfillPlan) -> list[tuple[str, str]]:
    strategy = KINDS.named(plan.strategy)
    limit = described_limit(plan.rate_limit, plan.effective_rate_limit, plan.rate_limit_reason)
    size = f"{text.rows(plan.rows)}, {text.size(plan.bytes)} in {text.files(plan.files)}"
    facts = [
        ("strategy", f"{plan.strategy}: {plan.reason}"),
        ("upstream", f"{size} as of {plan.offset_name} {plan.upstream_version}"),
        *upstream_facts(plan.upstreams),
        *_adoption(plan),
        *_former_rows(plan),
        ("rate limit", limit),
        ("to read", f"{text.rows(plan.rows_left)}{_in_epochs(plan)}"),
    ]
    if plan.parallelism > 1:
        facts.append(("parallel", f"{plan.parallelism} task runs share each epoch"))
    if plan.epochs and plan.first_epoch_files:
        files = strategy.files_read(plan.first_epoch_files, plan.files)
        scanned = f"{text.rows(plan.first_epoch_rows_scanned)}, {text.size(plan.first_epoch_bytes)}"
        facts.append(("next epoch", f"reads {files} ({scanned})"))
    elif plan.epochs and not plan.created and (first := strategy.first_chunk()):
        facts.append(("next epoch", first))
    if plan.last_epochs:
        facts.append(("afterwards", plan.last_epochs))
    return [*facts, *_upkeep(plan), *change_facts(plan.upstreams, plan.refresh)]


def _adoption(plan: BackfillPlan) -> list[tuple[str, str]]:
    """Return which existing table becomes the view, and what happens then."""
    found = plan.adopts
    if found is None:
        return []
    table, how = found.first_rows, "in place" if found.in_place else "by a copy of its files"
    size = f"{text.size(found.bytes)} in {text.files(found.files)}"
    after = (
        "no newer changes"
        if not found.offsets_after
        else f"the changes of {text.counted(found.offsets_after, 'newer offset')}"
    )
    stop = to_stop(table.location, in_place=found.in_place, written_by=found.written_by, written_at=found.written_at)
    return [
        (
            "adopts",
            f"version {table.version} of {table.location}, {size}, {how}, as of {plan.offset_name} {found.as_of}",
        ),
        ("compares", f"{text.counted(found.compared_vnodes, 'vnode')} of it with the query before anything is written"),
        ("then", f"the first epoch applies {after}"),
        ("to stop", stop),
    ]


def _former_rows(plan: BackfillPlan) -> list[tuple[str, str]]:
    """Return since when the view keeps former rows, if that is before its job."""
    if plan.newer_offsets is None:
        return []
    since = f"{plan.offset_name} {plan.upstream_version}"
    newer = text.counted(plan.newer_offsets, f"newer {plan.offset_name}")
    return [("former rows", f"since {since}, and then as of each of {newer}")]


def _upkeep(plan: BackfillPlan) -> list[tuple[str, str]]:
    """Return how a finished view of groups is kept up to date, or one that is computed whole."""
    if not plan.technique:
        return []
    facts = [
        ("technique", f"{plan.technique}: {plan.technique_reason}"),
        ("each epoch", f"reads {plan.refresh_reads}{_all_of(plan.refresh_rows)}, and writes {plan.refresh_writes}"),
    ]
    if plan.largest_unit is not None and plan.rows:
        share = text.percent(plan.largest_unit / plan.rows)
        again = "; a change of it computes all of these" if plan.refresh_rows is not None else ""
        facts.append(("largest unit", f"{text.rows(plan.largest_unit)}, {share}{again}"))
    if plan.break_even is not None:
        facts.append(("break-even", described_break_even(plan.cost, plan.break_even, plan.rows, plan.refresh)))
    return facts


def _all_of(rows: int | None) -> str:
    return "" if rows is None else f" ({text.rows(rows)})"


def _in_epochs(plan: BackfillPlan) -> str:
    if plan.epochs is None:
        return "; paused: no epoch reads any of it"
    if plan.epochs == 0:
        return "; the backfill is complete, so epochs only apply changes"
    return f" in {'one epoch' if plan.epochs == 1 else f'about {plan.epochs:,} epochs'}"
