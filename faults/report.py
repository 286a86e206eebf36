"""The tables of `docs/faults.md`: the newest run of each campaign, and the mutants."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from docs.generated import block_of, refilled
from docs.generated import table as markdown_table
from faults import mutants
from faults.campaign import RIGHT, WRONG, Tally, tallies
from faults.campaigns import CAMPAIGNS

PAGE = Path("docs/faults.md")

_LINE = re.compile(r"^\| `(?P<campaign>[a-z-]+)` \|.*\n", re.MULTILINE)


def line(tally: Tally) -> str:
    """Return the totals of a run in one line."""
    ends = ", ".join(f"{count:,} {result}" for result, count in sorted(tally.results.items(), key=_order))
    return f"{tally.campaign}: {tally.cases:,} cases, {tally.checks:,} checks, {tally.seconds:,.0f} s: {ends or 'none'}"


def table(found: Iterable[Tally], before: str = "") -> str:
    """
    Return the runs as a table.

    :param before: the previous table; its lines stay for campaigns without a new run.
    """
    lines = {match["campaign"]: match[0] for match in _LINE.finditer(before)}
    for tally in found:
        refused = {result: count for result, count in tally.results.items() if result not in {RIGHT, WRONG}}
        named = ", ".join(f"`{result}` {count:,}" for result, count in sorted(refused.items()))
        counts = (f"{tally.cases:,}", f"{tally.checks:,}", f"{tally.results[RIGHT]:,}")
        row = (f"`{tally.campaign}`", tally.seed, *counts, named or "none", f"{tally.wrong:,}")
        lines[tally.campaign] = markdown_table([], [row]).splitlines(keepends=True)[-1]
    header = ["campaign", "seed", "cases", "checks", "right", "refused by name", "wrong"]
    return markdown_table(header, []) + "".join(lines[name] for name in CAMPAIGNS if name in lines)


def write() -> None:
    """Write the tables into the page."""
    page = PAGE.read_text(encoding="utf-8")
    blocks = {"faults": table(tallies(), block_of(page, "faults")), "mutants": mutants.table()}
    PAGE.write_text(refilled(page, blocks), encoding="utf-8")


def _order(item: tuple[str, int]) -> tuple[int, str]:
    return ([RIGHT, WRONG].index(item[0]) if item[0] in {RIGHT, WRONG} else 2, item[0])
