"""The tables of `docs/faults.md`: what the newest run of each campaign left, and the mutants."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from docs.generated import refilled
from docs.generated import table as markdown_table
from faults import mutants
from faults.campaign import RIGHT, WRONG, Tally, tallies
from faults.campaigns import CAMPAIGNS

PAGE = Path("docs/faults.md")


def line(tally: Tally) -> str:
    """Return a run's outcome in one line."""
    ends = ", ".join(f"{count:,} {result}" for result, count in sorted(tally.results.items(), key=_order))
    return f"{tally.campaign}: {tally.cases:,} cases, {tally.checks:,} checks, {tally.seconds:,.0f} s: {ends or 'none'}"


def table(found: Iterable[Tally]) -> str:
    """Return the runs as a table."""
    by_name = {tally.campaign: tally for tally in found}
    rows = []
    for name in CAMPAIGNS:
        tally = by_name.get(name)
        if tally is None:
            continue
        refused = {result: count for result, count in tally.results.items() if result not in {RIGHT, WRONG}}
        named = ", ".join(f"`{result}` {count:,}" for result, count in sorted(refused.items()))
        counts = (f"{tally.cases:,}", f"{tally.checks:,}", f"{tally.results[RIGHT]:,}")
        rows.append((f"`{name}`", tally.seed, *counts, named or "none", f"{tally.wrong:,}"))
    return markdown_table(["campaign", "seed", "cases", "checks", "right", "refused by name", "wrong"], rows)


def write() -> None:
    """Write the tables into the page."""
    blocks = {"faults": table(tallies()), "mutants": mutants.table()}
    PAGE.write_text(refilled(PAGE.read_text(encoding="utf-8"), blocks), encoding="utf-8")


def _order(item: tuple[str, int]) -> tuple[int, str]:
    return ([RIGHT, WRONG].index(item[0]) if item[0] in {RIGHT, WRONG} else 2, item[0])
