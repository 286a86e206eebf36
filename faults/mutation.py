"""
Mutation testing: ``python -m faults.mutation [MODULE…] [--again | --more N | --told] [--write]``.

mutmut makes every small mistake that it knows in the modules that `pyproject.toml` names, one at a time, and runs the
fast tests that pass through the mistaken function. The share of mistakes that some test finds is told for each module;
the exit code is 1 if it is below :data:`FLOOR` in one of them.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
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

KILLED, SURVIVED, TIMED_OUT, UNKNOWN, UNTRIED = "killed", "survived", "timed out", "unknown", "not tried"

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
        """How many there are."""
        return self.verdicts.total()

    @property
    def tried(self) -> int:
        """How many of them were made."""
        return self.mutants - self.verdicts[UNTRIED]

    @property
    def not_found(self) -> int:
        """How many were made, and found by no test; one that ran for ever was found."""
        return self.tried - self.verdicts[KILLED] - self.verdicts[TIMED_OUT]

    @property
    def found(self) -> float:
        """The share of those made that tests found."""
        return 1 - self.not_found / self.tried if self.tried else 0.0

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
    return {name: UNTRIED if code is None else _VERDICTS.get(code, UNKNOWN) for name, code in codes.items()}


def share_of(module: str) -> Share:
    """Return the share of a module's mistakes that tests found."""
    return Share(module, Counter(verdicts_of(module).values()))


def table(shares: Sequence[Share]) -> str:
    """Return the shares as a table."""
    whole = Share("all", sum((share.verdicts for share in shares), Counter[str]()))
    return markdown_table(
        ["module", "mistakes", "tried", "killed", "timed out", "not found", "found"],
        [
            (
                f"`{share.module.removeprefix('airflow_backfill_provider/')}`" if share is not whole else "all",
                f"{share.mutants:,}",
                f"{share.tried:,}",
                f"{share.verdicts[KILLED]:,}",
                f"{share.verdicts[TIMED_OUT]:,}",
                f"{share.not_found:,}",
                share.told,
            )
            for share in (*shares, whole)
        ],
    )


def main(arguments: list[str]) -> int:
    """Make the mistakes, tell what became of them, and return the exit code."""
    parser = argparse.ArgumentParser(prog="faults.mutation", description="make every small mistake, and test it")
    parser.add_argument("modules", nargs="*", metavar="MODULE", help="parts of file names; by default all")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--again", action="store_true", help="try only what was not found the last time")
    which.add_argument("--more", type=int, metavar="N", help="try N at random of each module's that were not tried yet")
    which.add_argument("--told", action="store_true", help="try nothing; tell what became of the last run's mistakes")
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
        if asked.again:
            chosen = of_verdict(modules, {SURVIVED, UNKNOWN, UNTRIED})
        elif asked.more is not None:
            chosen = [name for module in modules for name in _sample(of_verdict([module], {UNTRIED}), asked.more)]
        else:
            chosen = _forget(modules)
        code = _try(chosen, asked.jobs) if chosen else 0
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


def of_verdict(modules: Iterable[str], verdicts: Collection[str]) -> list[str]:
    """Return the mistakes in some modules that had one of some ends, by mutmut's names."""
    return [name for module in modules for name, verdict in verdicts_of(module).items() if verdict in verdicts]


def _sample(names: Sequence[str], size: int) -> list[str]:
    """Return some of the names, always the same of the same."""
    return random.Random(0).sample(names, min(size, len(names)))


def _forget(modules: Sequence[str]) -> list[str]:
    """Remove what is kept of the mistakes in some modules, and return the pattern of each one's names."""
    if len(modules) == len(mutated_modules()):
        shutil.rmtree(RESULTS, ignore_errors=True)
    # What mutmut keeps does not depend on the tests, which may be others by now.
    for module in modules:
        for file in (RESULTS / module, RESULTS / f"{module}.meta"):
            file.unlink(missing_ok=True)
    return [f"{module.removesuffix('.py').replace('/', '.')}.*" for module in modules]


def _try(names: Sequence[str], jobs: int | None) -> int:
    """Let mutmut make the mistakes of some names, and return its exit code."""
    # It copies the tests, and removes none.
    shutil.rmtree(RESULTS / "tests", ignore_errors=True)
    program = str(Path(sys.executable).with_name("mutmut"))
    workers = [] if jobs is None else ["--max-children", str(jobs)]
    return subprocess.run([program, "run", *workers, *names], check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
