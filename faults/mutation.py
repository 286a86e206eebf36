"""
Mutation testing: ``python -m faults.mutation [MODULE…] [--again] [--write]``.

mutmut makes every small mistake that it knows in the modules that `pyproject.toml` names, one at a time, and runs the
fast tests that pass through the mistaken function. The share of mistakes that some test finds is told for each module;
the exit code is 1 if it is below :data:`FLOOR` in one of them.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from docs.generated import refilled
from docs.generated import table as markdown_table
from faults.report import PAGE

FLOOR = 0.9
"""The share of mistakes that must be found in every module."""

RESULTS = Path("mutants")
"""Where mutmut keeps the mutated package and what became of each mistake."""

KILLED, SURVIVED, TIMED_OUT, UNKNOWN = "killed", "survived", "timed out", "unknown"

# By the exit code of the tests. A worker that failed to run them (255) has found nothing, although mutmut counts it
# with those that ran out of time.
_VERDICTS = {
    0: SURVIVED,
    1: KILLED,
    3: KILLED,
    33: SURVIVED,  # no test passes through the function
    -24: TIMED_OUT,
    24: TIMED_OUT,
    152: TIMED_OUT,
}


@dataclass(frozen=True, slots=True)
class Share:
    """
    What became of a module's mistakes.

    :param verdicts: how many of them had which end.
    """

    module: str
    verdicts: Counter[str]

    @property
    def mutants(self) -> int:
        """How many there were."""
        return self.verdicts.total()

    @property
    def found(self) -> float:
        """The share that tests found; one that ran for ever was found, too."""
        return (self.verdicts[KILLED] + self.verdicts[TIMED_OUT]) / self.mutants if self.mutants else 0.0

    @property
    def told(self) -> str:
        """The share in percent, rounded down: what is nearly enough is not enough."""
        return f"{int(self.found * 1000) / 10:.1f} %"


def mutated_modules() -> tuple[str, ...]:
    """Return the files that mistakes are made in."""
    settings = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))
    found: Iterable[str] = settings["tool"]["mutmut"]["only_mutate"]
    return tuple(found)


def verdicts_of(module: str) -> dict[str, str]:
    """Return what became of each of a module's mistakes, by mutmut's names of them."""
    kept = RESULTS / f"{module}.meta"
    if not kept.exists():
        return {}
    codes: Mapping[str, int | None] = json.loads(kept.read_text(encoding="utf-8"))["exit_code_by_key"]
    return {name: UNKNOWN if code is None else _VERDICTS.get(code, UNKNOWN) for name, code in codes.items()}


def share_of(module: str) -> Share:
    """Return the share of a module's mistakes that tests found."""
    return Share(module, Counter(verdicts_of(module).values()))


def table(shares: Sequence[Share]) -> str:
    """Return the shares as a table."""
    whole = Share("all", sum((share.verdicts for share in shares), Counter[str]()))
    return markdown_table(
        ["module", "mistakes", "killed", "timed out", "not found", "found"],
        [
            (
                f"`{share.module.removeprefix('airflow_backfill_provider/')}`" if share is not whole else "all",
                f"{share.mutants:,}",
                f"{share.verdicts[KILLED]:,}",
                f"{share.verdicts[TIMED_OUT]:,}",
                f"{share.mutants - share.verdicts[KILLED] - share.verdicts[TIMED_OUT]:,}",
                share.told,
            )
            for share in (*shares, whole)
        ],
    )


def main(arguments: list[str]) -> int:
    """Make the mistakes, tell what became of them, and return the exit code."""
    parser = argparse.ArgumentParser(prog="faults.mutation", description="make every small mistake, and test it")
    parser.add_argument("modules", nargs="*", metavar="MODULE", help="parts of file names; by default all")
    parser.add_argument("--again", action="store_true", help="try only what was not found the last time")
    parser.add_argument("--told", action="store_true", help="try nothing; tell what became of the last run's mistakes")
    parser.add_argument("--write", action="store_true", help=f"write the shares into {PAGE}")
    parser.add_argument("--jobs", type=int, help="processes side by side; by default one for each processor")
    asked = parser.parse_args(arguments)
    console = Console(width=120)
    modules = [
        module for module in mutated_modules() if not asked.modules or any(part in module for part in asked.modules)
    ]
    if not modules:
        parser.error(f"no module of [tool.mutmut] has one of these names: {', '.join(asked.modules)}")
    if not asked.told:
        code = _try(modules, again=asked.again, jobs=asked.jobs)
        if code:
            return code
    shares = [share_of(module) for module in modules]
    console.print(table(shares), markup=False, highlight=False)
    for module in modules:
        for name, verdict in sorted(verdicts_of(module).items()):
            if verdict in {SURVIVED, UNKNOWN}:
                console.print(f"{verdict}: {name}", markup=False, highlight=False, soft_wrap=True)
    if asked.write:
        PAGE.write_text(refilled(PAGE.read_text(encoding="utf-8"), {"mutation": table(shares)}), encoding="utf-8")
    return int(any(share.found < FLOOR for share in shares))


def _try(modules: Sequence[str], *, again: bool, jobs: int | None) -> int:
    """Run mutmut over some modules, and return its exit code."""
    if again:
        found = (KILLED, TIMED_OUT)
        names = [name for module in modules for name, verdict in verdicts_of(module).items() if verdict not in found]
        if not names:
            return 0
    elif len(modules) == len(mutated_modules()):
        shutil.rmtree(RESULTS, ignore_errors=True)
        names = []
    else:
        # What it keeps does not depend on the tests, which may be others by now.
        for module in modules:
            for file in (RESULTS / module, RESULTS / f"{module}.meta"):
                file.unlink(missing_ok=True)
        names = [f"{module.removesuffix('.py').replace('/', '.')}.*" for module in modules]
    # It copies the tests, and removes none.
    shutil.rmtree(RESULTS / "tests", ignore_errors=True)
    program = str(Path(sys.executable).with_name("mutmut"))
    workers = [] if jobs is None else ["--max-children", str(jobs)]
    return subprocess.run([program, "run", *workers, *names], check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
