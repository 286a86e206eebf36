"""Jobs and plans as Markdown, for Airflow's UI."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from airflow_backfill_provider.core.job import BackfillJob

if TYPE_CHECKING:
    from airflow_backfill_provider.planning.plan_text import PlanText

_MARKUP = re.compile(r"([\\`*\[\]<>|])")


def definition_markdown(job: BackfillJob) -> str:
    """Return the definition of a view as Markdown."""
    query = "\n".join(f"    {line}" for line in job.query.strip().splitlines())
    return f"`{job.materialized_view}` is the query below over `{job.upstream.location}`.\n\n{query}\n"


def plan_markdown(plan: PlanText) -> str:
    """Return a plan as Markdown."""
    from airflow_backfill_provider.planning.plan_text import COST_COLUMNS

    costs = _table(COST_COLUMNS, [":--", *["--:"] * (len(COST_COLUMNS) - 1)], plan.costs)
    blocks = [
        f"**{_plain(plan.heading)}**",
        _table(("", ""), [":--", ":--"], plan.facts),
        "A whole backfill, estimated:",
        costs,
        _plain(f"({plan.basis})"),
        _plain(plan.closing),
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def _table(columns: Sequence[str], alignments: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [columns, alignments, *([_plain(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _plain(written: str) -> str:
    """Escape text for Markdown."""
    return _MARKUP.sub(r"\\\1", " ".join(written.split()))
