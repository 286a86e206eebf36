"""
The fault campaigns: ``python -m faults [CAMPAIGN…] [--full] [--seed N] [--case N] [--go-on] …``, or ``… report``.

Every outcome is in `.faults`; the exit code is 1 if a case went wrong. Campaign, seed and number of a wrong case are
printed, and play it again.
"""

from __future__ import annotations

import argparse
import sys
import time

from rich.console import Console

from faults import campaign, report
from faults.campaigns import CAMPAIGNS


def main(arguments: list[str]) -> int:
    """Run the requested campaigns, and return the exit code."""
    parser = argparse.ArgumentParser(prog="faults", description="play faults against the package")
    parser.add_argument(
        "campaigns",
        nargs="*",
        choices=[*CAMPAIGNS, "report", []],
        metavar="CAMPAIGN",
        help=f"{', '.join(CAMPAIGNS)}, or report; by default all",
    )
    parser.add_argument("--full", action="store_true", help="play as many cases as a release needs; takes hours")
    parser.add_argument("--seed", type=int, default=1, help="the seed of all cases (default 1)")
    parser.add_argument("--case", type=int, help="play only this case")
    parser.add_argument("--cases", type=int, help="play this number of cases")
    parser.add_argument("--first", type=int, default=0, help="the first of these cases (default 0)")
    parser.add_argument(
        "--go-on", action="store_true", help="keep the cases of the last run with this seed, and play the rest"
    )
    parser.add_argument("--seconds", type=float, help="begin no case after this number of seconds per campaign")
    asked = parser.parse_args(arguments)
    console = Console(width=120)
    if asked.campaigns == ["report"]:
        report.write()
        return 0
    wrong = 0
    for name in asked.campaigns or CAMPAIGNS:
        found = CAMPAIGNS[name]()
        end = asked.first + asked.cases if asked.cases else found.full if asked.full else found.quick
        before = campaign.played(name, asked.seed) if asked.go_on else []
        known = {line["case"] for line in before}
        cases = range(asked.first, end) if asked.case is None else [asked.case]
        tally = campaign.run(
            found,
            seed=asked.seed,
            before=before,
            cases=[case for case in cases if case not in known],
            console=console,
            until=None if asked.seconds is None else time.monotonic() + asked.seconds,
        )
        wrong += tally.wrong
        console.print(report.line(tally))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
