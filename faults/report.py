"""The tables of `docs/faults.md`: what the newest run of each campaign left, and the mutants."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

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
    lines = ["| campaign | seed | cases | checks | right | refused by name | wrong |", "|---|---|---|---|---|---|---|"]
    for name in CAMPAIGNS:
        tally = by_name.get(name)
        if tally is None:
            continue
        refused = {result: count for result, count in tally.results.items() if result not in {RIGHT, WRONG}}
        named = ", ".join(f"`{result}` {count:,}" for result, count in sorted(refused.items()))
        lines.append(
            f"| `{name}` | {tally.seed} | {tally.cases:,} | {tally.checks:,} | {tally.results[RIGHT]:,} | "
            f"{named or 'none'} | {tally.wrong:,} |"
        )
    return "\n".join(lines)


def filled(text: str, name: str, body: str) -> str:
    """Return a page's text with one of its generated blocks made anew."""
    begin, end = f"<!-- generated: {name} -->", "<!-- /generated -->"
    before, _, rest = text.partition(begin)
    _, _, after = rest.partition(end)
    return f"{before}{begin}\n\n{body.strip()}\n\n{end}{after}"


def write() -> None:
    """Write the tables into the page."""
    text = filled(PAGE.read_text(encoding="utf-8"), "faults", table(tallies()))
    PAGE.write_text(filled(text, "mutants", mutants.table()), encoding="utf-8")


def _order(item: tuple[str, int]) -> tuple[int, str]:
    return ([RIGHT, WRONG].index(item[0]) if item[0] in {RIGHT, WRONG} else 2, item[0])
