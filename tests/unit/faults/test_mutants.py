"""The mutants made by hand: each one can still be made, and the tests that must find it exist."""

from __future__ import annotations

import ast
import random
import subprocess
import sys
from pathlib import Path

import pytest

from docs.generated import refilled
from faults import mutants, report
from faults.campaign import WrongError
from faults.mutants import CASES, MUTANTS, QUICK, ROOT
from faults.mutants.__main__ import chosen, main
from faults.mutants.mutant import Mutant

FAILED, PASSED, NOT_COLLECTED = 1, 0, 2


def functions_of(file: Path) -> set[str]:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_there_are_enough_mutants_with_different_names():
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 16
    assert {mutant.invariant for mutant in MUTANTS} == {"I1", "I2", "I3", "I4", "I5", "I6", "I7"}


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_can_be_made_and_its_killers_exist(mutant):
    text = (ROOT / mutant.file).read_text(encoding="utf-8")
    assert mutant.mutated(text) != text
    compile(mutant.mutated(text), mutant.file, "exec")
    for killer in mutant.killers:
        file, _, function = killer.partition("::")
        assert function.partition("[")[0] in functions_of(ROOT / file)


@pytest.mark.slow
def test_each_mutant_is_found_by_make_test():
    """A test that leaves `make test` for `make test-exhaustive` may be the only one that finds a mistake."""
    killers = {killer for mutant in MUTANTS for killer in mutant.killers}
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", "-m", "not exhaustive"]
    done = subprocess.run([*command, *killers], cwd=ROOT, capture_output=True, text=True, check=False)
    played = {line.partition("[")[0] for line in done.stdout.splitlines()} | {*done.stdout.splitlines()}
    assert killers - played == set(), done.stdout[-2000:] + done.stderr[-2000:]


def test_mutants_are_chosen_by_their_names_and_by_the_tests_that_find_them(capsys):
    (number,) = chosen(["begin-included"])
    case = CASES[number]
    assert case.mutant
    assert case.mutant.name == "begin-included"
    assert number in chosen([case.killers[0]])
    assert {number} < {*chosen([case.killers[0].partition("::")[0]])}
    assert main(["nobody"]) == 2
    assert "no mutant has one of these names" in capsys.readouterr().out


@pytest.mark.parametrize("old", ["return", "nowhere"])
def test_a_mutant_that_could_go_anywhere_is_refused(old):
    made = Mutant(name="m", breaks="", invariant="I1", file="f.py", old=old, new="", killers=())
    with pytest.raises(WrongError, match=r"mutant m: its old text occurs \d+ times in f.py"):
        made.mutated("return 1\nreturn 2\n")


def test_a_quick_run_has_every_mutant_that_needs_no_spark():
    assert [case.mutant for case in QUICK[1:]] == [mutant for mutant in MUTANTS if not mutant.spark]
    assert CASES[: len(QUICK)] == QUICK
    assert {case.mutant for case in CASES if case.mutant} == set(MUTANTS)
    without = [case for case in CASES if case.mutant is None]
    assert {killer for case in without for killer in case.killers} == {k for m in MUTANTS for k in m.killers}


@pytest.fixture
def ends(monkeypatch):
    """Let the tests end by an exit code without running them."""

    def by(code):
        monkeypatch.setattr(mutants, "run_tests", lambda root, tests: (code, "FAILED tests/t.py::t - wrong\n"))
        monkeypatch.setattr(mutants, "copy_sources", lambda to: None)
        monkeypatch.setattr(Mutant, "apply", lambda mutant, root: None)

    return by


def test_a_mutant_is_caught_if_a_killer_fails(ends):
    ends(FAILED)
    outcome = mutants.play(1, random.Random())
    assert outcome.result == "caught"
    assert outcome.about == f"{MUTANTS[0].name}: FAILED tests/t.py::t - wrong"


@pytest.mark.parametrize(("code", "said"), [(PASSED, "no killer failed"), (NOT_COLLECTED, "exit code 2")])
def test_a_mutant_that_no_test_finds_is_wrong(ends, code, said):
    """Tests that could not be run have found nothing."""
    ends(code)
    with pytest.raises(WrongError, match=f"{MUTANTS[0].name}: {said}"):
        mutants.play(1, random.Random())


def test_killers_that_fail_without_a_mutant_are_wrong(ends):
    """They would find anything."""
    ends(PASSED)
    assert mutants.play(0, random.Random()).checks == len(QUICK[0].killers)
    ends(FAILED)
    with pytest.raises(WrongError, match="without a mutant"):
        mutants.play(0, random.Random())


def test_the_page_lists_the_mutants():
    page = (ROOT / report.PAGE).read_text(encoding="utf-8")
    assert refilled(page, {"mutants": mutants.table()}) == page, "python -m faults report"
