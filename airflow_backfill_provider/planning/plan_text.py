"""What a plan says to people, in words and figures: the same at a terminal and in Airflow's UI."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_backfill_provider.core import text
from airflow_backfill_provider.planning.plan import BackfillPlan
from airflow_backfill_provider.strategies import KINDS
from airflow_backfill_provider.strategies.evidence import BYTES_PER_SECOND, SECONDS_PER_RUN

COST_COLUMNS = ("strategy", "rows", "bytes read and sorted", "epochs", "Spark runs", "hours")


@dataclass(frozen=True, slots=True)
class PlanText:
    """
    A plan in words.

    :param heading: the job, and whether it is created.
    :param facts: what lies before the job, each with a name; warnings last.
    :param costs: what a whole backfill would cost, a row for each strategy under :data:`COST_COLUMNS`.
    :param basis: what the costs are estimated with.
    :param closing: what the plan did not look at; empty if there is nothing to add.
    """

    heading: str
    facts: tuple[tuple[str, str], ...]
    costs: tuple[tuple[str, ...], ...]
    basis: str
    closing: str


def describe_plan(plan: BackfillPlan) -> PlanText:
    """Put a plan into words."""
    return PlanText(
        heading=f"{plan.name}: {'created already; what is left' if plan.created else 'not created yet'}",
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
        basis=f"hours are rough: {BYTES_PER_SECOND // 1_000_000} MB/s for each run, and {SECONDS_PER_RUN} s for each "
        "application",
        closing=""
        if plan.created
        else "nothing was written; create looks at the query's names and types and at the keys, too",
    )


def _facts(plan: BackfillPlan) -> list[tuple[str, str]]:
    strategy = KINDS.named(plan.strategy)
    limit = "unlimited" if plan.rate_limit is None else f"{text.rows(plan.rate_limit)} per epoch"
    size = f"{text.rows(plan.rows)}, {text.size(plan.bytes)} in {text.files(plan.files)}"
    facts = [
        ("strategy", f"{plan.strategy}: {plan.reason}"),
        ("upstream", f"{size} as of version {plan.upstream_version}"),
        ("rate limit", limit),
        ("to read", f"{text.rows(plan.rows_left)}{_in_epochs(plan)}"),
    ]
    if plan.parallelism > 1:
        facts.append(("parallel", f"{plan.parallelism} runs share each epoch"))
    if plan.epochs and plan.first_epoch_files:
        looked_into = strategy.files_read(plan.first_epoch_files, plan.files)
        scanned = f"{text.rows(plan.first_epoch_rows_scanned)}, {text.size(plan.first_epoch_bytes)}"
        facts.append(("next epoch", f"looks into {looked_into} ({scanned})"))
    elif plan.epochs and not plan.created and (first := strategy.first_chunk()):
        facts.append(("next epoch", first))
    return facts


def _in_epochs(plan: BackfillPlan) -> str:
    if plan.epochs is None:
        return "; paused: no epoch reads any of it"
    if plan.epochs == 0:
        return "; the backfill is complete, epochs apply changes alone"
    return f" in {'one epoch' if plan.epochs == 1 else f'about {plan.epochs:,} epochs'}"
