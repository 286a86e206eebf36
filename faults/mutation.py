"""
Mutation testing: ``python -m faults.mutation [MODULE…] [--again | --more N | --report] [--write]``.

mutmut makes every small mistake that it knows in the modules that `pyproject.toml` names, one at a time, and runs the
fast tests that call the mutated function. For each module the share of mistakes that a test finds is printed. The exit
code is 1 if it is below :data:`FLOOR` in one of them.
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
"""The lowest allowed share of mistakes that tests find, in every module."""

RESULTS = Path("mutants")
"""The folder in which mutmut keeps the mutated package and the verdict on each mistake."""

KILLED, SURVIVED, TIMED_OUT, UNKNOWN, UNTRIED = "killed", "survived", "timed out", "unknown", "not tried"

# By the exit code of the tests. A worker that failed to run them (255) has found nothing, although mutmut counts it as
# timed out.
_VERDICTS = {
    0: SURVIVED,
    1: KILLED,
    3: KILLED,
    33: SURVIVED,  # no test calls the function
    -24: TIMED_OUT,
    24: TIMED_OUT,
    152: TIMED_OUT,
}


@dataclass(frozen=True, slots=True)
class Share:
    """
    The verdicts on a module's mistakes.

    :param verdicts: the number of mistakes by verdict.
    """

    module: str
    verdicts: Counter[str]

    @property
    def mutants(self) -> int:
        """The number of mistakes."""
        return self.verdicts.total()

    @property
    def tried(self) -> int:
        """The number of mistakes that were tried."""
        return self.mutants - self.verdicts[UNTRIED]

    @property
    def not_found(self) -> int:
        """The number of mistakes that were tried and not found; one that ran forever was found."""
        return self.tried - self.verdicts[KILLED] - self.verdicts[TIMED_OUT]

    @property
    def found(self) -> float:
        """The share of the tried mistakes that tests found."""
        return 1 - self.not_found / self.tried if self.tried else 0.0

    @property
    def percent(self) -> str:
        """The share in percent, rounded down, so that a share just below the limit does not look sufficient."""
        return f"{int(self.found * 1000) / 10:.1f} %"


def mutated_modules() -> tuple[str, ...]:
    """Return the files in which mistakes are made."""
    settings = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))
    found: Iterable[str] = settings["tool"]["mutmut"]["only_mutate"]
    return tuple(found)


def verdicts_of(module: str) -> dict[str, str]:
    """Return the verdict on each of a module's mistakes, by mutmut's names."""
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
                share.percent,
            )
            for share in (*shares, whole)
        ],
    )


def main(arguments: list[str]) -> int:
    """Make the mistakes, print the verdicts, and return the exit code."""
    parser = argparse.ArgumentParser(prog="faults.mutation", description="make every small mistake, and test it")
    parser.add_argument("modules", nargs="*", metavar="MODULE", help="parts of file names; by default all")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--again", action="store_true", help="try only the mistakes that were not found the last time")
    which.add_argument(
        "--more", type=int, metavar="N", help="try N random mistakes of each module that were not tried yet"
    )
    which.add_argument("--report", action="store_true", help="try nothing; print the verdicts of the last run")
    parser.add_argument("--write", action="store_true", help=f"write the shares into {PAGE}")
    parser.add_argument("--jobs", type=int, help="number of parallel processes; by default one for each processor")
    asked = parser.parse_args(arguments)
    console = Console(width=120)
    modules = [
        module for module in mutated_modules() if not asked.modules or any(part in module for part in asked.modules)
    ]
    if not modules:
        parser.error(f"no module of [tool.mutmut] has one of these names: {', '.join(asked.modules)}")
    if not asked.report:
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
    """Return the mistakes in some modules with one of some verdicts, by mutmut's names."""
    return [name for module in modules for name, verdict in verdicts_of(module).items() if verdict in verdicts]


def _sample(names: Sequence[str], size: int) -> list[str]:
    """Return a random sample of the names, the same one every time."""
    return random.Random(0).sample(names, min(size, len(names)))


def _forget(modules: Sequence[str]) -> list[str]:
    """Remove the results for some modules, and return the name pattern of each module's mistakes."""
    if len(modules) == len(mutated_modules()):
        shutil.rmtree(RESULTS, ignore_errors=True)
    # mutmut keeps its results even if the tests have changed.
    for module in modules:
        for file in (RESULTS / module, RESULTS / f"{module}.meta"):
            file.unlink(missing_ok=True)
    return [f"{module.removesuffix('.py').replace('/', '.')}.*" for module in modules]


def _try(names: Sequence[str], jobs: int | None) -> int:
    """Let mutmut make the named mistakes, and return its exit code."""
    # mutmut copies the tests, but never removes old ones.
    shutil.rmtree(RESULTS / "tests", ignore_errors=True)
    program = str(Path(sys.executable).with_name("mutmut"))
    workers = [] if jobs is None else ["--max-children", str(jobs)]
    return subprocess.run([program, "run", *workers, *names], check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
