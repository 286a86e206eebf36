"""
Jobs and plans as Markdown, for Airflow's UI.

Whoever approves a plan reads it. So names, locations and texts of a definition are shown as they are: they make no
markup, no link and no line of their own.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from airflow_backfill_provider.core.job.definition import BackfillJob

if TYPE_CHECKING:
    from airflow_backfill_provider.core.status.view_difference import ViewDifference
    from airflow_backfill_provider.jobs.planning.plan_text import PlanText

_MARKUP = re.compile(r"[\\`*\[\]<>|~&]|(?<!\w)_|_(?!\w)")
_LIKE_A_LINK = re.compile(r"https?://|www\.|\S@\S", re.IGNORECASE)
"""What Airflow's pages make a link of, also if it is escaped."""

_BACKQUOTES = re.compile(r"`+")


def definition_markdown(job: BackfillJob) -> str:
    """Return the definition of a view as Markdown."""
    query = "\n".join(f"    {line}" for line in job.query.strip().splitlines())
    return f"{_code(job.materialized_view)} is the query below over {_code(job.upstream.location)}.\n\n{query}\n"


def plan_markdown(plan: PlanText) -> str:
    """Return a plan as Markdown."""
    from airflow_backfill_provider.jobs.planning.plan_text import COST_COLUMNS

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


def difference_markdown(found: ViewDifference) -> str:
    """Return as Markdown how what waits for an approval differs from the view that serves, with a sample of keys."""
    from airflow_backfill_provider.core.status.difference_text import compared_line, key_line, left_out, rows_lines

    left = left_out(found.rows)
    lines = [*rows_lines(found.rows), *map(key_line, found.rows.sample), *([f"and {left:,} more"] if left else [])]
    listed = "\n".join(f"- {_plain(line)}" for line in lines)
    return f"**{_plain(compared_line(found))}**\n\n{listed}\n"


def _table(columns: Sequence[str], alignments: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [columns, alignments, *([_plain(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _plain(written: str) -> str:
    """Escape text for Markdown, in one line."""
    return " ".join(_word(word) for word in written.split())


def _word(word: str) -> str:
    if _LIKE_A_LINK.search(word):
        return _code(word).replace("|", "\\|")  # a table ends its cells before it looks for code
    return _MARKUP.sub(r"\\\g<0>", word)


def _code(written: str) -> str:
    """Return text as code, in one line, between more backquotes than it has in a row."""
    text = " ".join(written.split())
    fence = "`" * (max((len(run) for run in _BACKQUOTES.findall(text)), default=0) + 1)
    edge = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{edge}{text}{edge}{fence}"
