"""
Mistakes put into the package by hand, one at a time, each of which a test must find.

Each stands for a rule that epochs rest on: where a position ends, which version a window begins with, who may still
write. A mutant is put into a copy of the package. The tests named as its killers run there, and one of them must fail.
The first case, with and without Spark, changes nothing: there all killers must pass.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

from docs.generated import table as markdown_table
from faults.campaign import Campaign, Outcome, WrongError
from faults.mutants import (
    added_rows,
    adoption,
    announcing,
    appends,
    chains,
    changed_queries,
    compared_rows,
    core,
    cut_over,
    databases,
    diamonds,
    endings,
    engine,
    explaining,
    files,
    folds,
    formats,
    former_rows,
    groups,
    guards,
    joined_groups,
    joined_units,
    joined_views,
    joins,
    lake,
    layouts,
    placed_rows,
    protocol,
    queries,
    several,
    slices,
    snapshot,
    spark,
    state,
    stored_keys,
    strategies,
    succession,
    unions,
    verifying,
)
from faults.mutants.mutant import Mutant

ROOT = Path(__file__).parents[2]
SOURCES = ("airflow_backfill_provider", "faults", "spark_apps", "tests")
PATIENCE = 600
"""Seconds that each test may take on a busy machine."""

_PASSED, _FAILED = 0, 1
"""Exit codes of pytest. Any other one means that pytest ran no test, or not all of them."""


MUTANTS = (
    *core.MUTANTS,
    *lake.MUTANTS,
    *layouts.MUTANTS,
    *state.MUTANTS,
    *databases.MUTANTS,
    *diamonds.MUTANTS,
    *endings.MUTANTS,
    *strategies.MUTANTS,
    *snapshot.MUTANTS,
    *protocol.MUTANTS,
    *succession.MUTANTS,
    *changed_queries.MUTANTS,
    *cut_over.MUTANTS,
    *appends.MUTANTS,
    *placed_rows.MUTANTS,
    *stored_keys.MUTANTS,
    *chains.MUTANTS,
    *several.MUTANTS,
    *spark.MUTANTS,
    *engine.MUTANTS,
    *explaining.MUTANTS,
    *queries.MUTANTS,
    *groups.MUTANTS,
    *folds.MUTANTS,
    *slices.MUTANTS,
    *added_rows.MUTANTS,
    *joins.MUTANTS,
    *unions.MUTANTS,
    *joined_views.MUTANTS,
    *compared_rows.MUTANTS,
    *joined_groups.MUTANTS,
    *joined_units.MUTANTS,
    *adoption.MUTANTS,
    *announcing.MUTANTS,
    *files.MUTANTS,
    *formats.MUTANTS,
    *former_rows.MUTANTS,
    *guards.MUTANTS,
    *verifying.MUTANTS,
)
"""The mutants by the room of the package that they change."""


@dataclass(frozen=True, slots=True)
class Case:
    """
    One case: some tests, with or without a mistake.

    :param killers: the tests that are run.
    :param mutant: the mistake that they must find; without a mutant, they must pass.
    """

    killers: tuple[str, ...]
    mutant: Mutant | None = None


def _cases(mutants: Sequence[Mutant]) -> list[Case]:
    killers = dict.fromkeys(killer for mutant in mutants for killer in mutant.killers)
    return [Case(tuple(killers)), *(Case(mutant.killers, mutant) for mutant in mutants)]


QUICK = _cases([mutant for mutant in MUTANTS if not mutant.spark])
"""The cases whose tests don't start Spark."""

CASES = [*QUICK, *_cases([mutant for mutant in MUTANTS if mutant.spark])]


def copy_sources(to: Path) -> None:
    """Copy what the tests need, without caches."""
    for name in SOURCES:
        shutil.copytree(ROOT / name, to / name, ignore=shutil.ignore_patterns(".*", "__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", to)


def run_tests(root: Path, tests: Sequence[str]) -> tuple[int, str]:
    """Run tests on the sources in a folder; return pytest's exit code, and what it wrote."""
    plugins = ("no:randomly", "no:cacheprovider", "faults.mutated_package")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-x", "-q", *(part for name in plugins for part in ("-p", name)), *tests],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root), "PYTHONDONTWRITEBYTECODE": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE * len(tests),
        check=False,
    )
    return done.returncode, done.stdout


def play(number: int, _: random.Random) -> Outcome:
    """Try one mutant, or none."""
    case = CASES[number % len(CASES)]
    with tempfile.TemporaryDirectory(prefix="backfill-mutant-") as folder:
        root = Path(folder)
        copy_sources(root)
        if case.mutant is not None:
            case.mutant.apply(root)
        code, written = run_tests(root, case.killers)
    if case.mutant is None:
        if code != _PASSED:
            raise WrongError(f"without a mutant, its killers end with exit code {code}:\n{written[-2000:]}")
        return Outcome(checks=len(case.killers), about="nothing was changed")
    if code != _FAILED:
        ended = "no killer failed" if code == _PASSED else f"exit code {code}"
        raise WrongError(f"{case.mutant.name}: {ended}:\n{written[-2000:]}")
    failed = next((line for line in written.splitlines() if line.startswith(("FAILED", "ERROR"))), "")
    return Outcome("caught", about=f"{case.mutant.name}: {failed[:300]}")


def table() -> str:
    """Return the mutants and their killers as a table."""
    return markdown_table(
        ["mutant", "what is wrong with it", "breaks", "in", "found by"],
        [
            (
                f"`{mutant.name}`",
                mutant.breaks,
                mutant.invariant,
                f"`{mutant.file.removeprefix('airflow_backfill_provider/')}`",
                ", ".join(f"`{killer.removeprefix('tests/')}`" for killer in mutant.killers),
            )
            for mutant in MUTANTS
        ],
    )


CAMPAIGN = Campaign(
    name="mutants",
    about="the package with one mistake, made by hand: the tests that stand for it must fail",
    quick=len(QUICK),
    full=len(CASES),
    checks="tests",
    stage=lambda: nullcontext(play),
    processes=2,
)
