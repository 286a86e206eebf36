"""The port map names existing code, and tests that are in every run of the tests."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[3]
PACKAGE = CHECKOUT / "airflow_backfill_provider"
PAGE = CHECKOUT / "docs" / "port-map.md"
UNNAMED_TESTS = CHECKOUT / "tests" / "integration" / "engine"
"""Where the page's tests and test files lie that are named without a path."""

WORDS = frozenset({"versionAsOf", "no_shuffle", "old_state", "has_position", "upstream.distribution_key"})
"""What the page sets as code and is no name of ours."""

_SPAN = re.compile(r"`([^`]+)`")
_NAME = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*(?=$|\()")


def cells() -> Iterator[str]:
    """Yield what the page says of our side."""
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("|") and not line.startswith("|---"):
            # Two vertical bars of a cell never stand for themselves on this page.
            yield from line.strip("|").split("|")[1:]


SPANS = sorted({span for cell in cells() for span in _SPAN.findall(cell)})
PATHS = [span for span in SPANS if "/" in span or span.endswith(".py")]
TESTS = [span for span in SPANS if re.fullmatch(r"test_\w+", span)]
NAMES = [span for span in SPANS if span not in {*PATHS, *TESTS, *WORDS} and _NAME.match(span)]


@cache
def symbols() -> dict[str, frozenset[str]]:
    """Return classes and modules of the package, each with the names that are defined in it; under "" all of them."""
    found: dict[str, set[str]] = {"": set()}
    for file in PACKAGE.rglob("*.py"):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        module = file.parent.name if file.stem == "__init__" else file.stem
        found.setdefault(module, set()).update(_defined(tree), _imported(tree))
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, set()).update(_defined(node))
    found[""] = {name for names in found.values() for name in names} | set(found)
    return {name: frozenset(names) for name, names in found.items()}


def _defined(body: ast.Module | ast.ClassDef) -> Iterator[str]:
    for node in body.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id
        elif isinstance(node, ast.Assign):
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))


def _imported(module: ast.Module) -> Iterator[str]:
    for node in module.body:
        if isinstance(node, ast.ImportFrom):
            yield from (alias.name for alias in node.names)


def played(file: Path) -> dict[str, bool]:
    """Return the tests of a file, and whether each is in every run of the tests."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    whole = any("pytestmark" in ast.unparse(node) and "exhaustive" in ast.unparse(node) for node in tree.body)
    return {
        node.name: not whole and not any(ast.unparse(mark) == "pytest.mark.exhaustive" for mark in node.decorator_list)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }


@pytest.mark.parametrize("path", PATHS)
def test_a_path_of_the_page_exists(path):
    places = [PACKAGE / path, CHECKOUT / path, UNNAMED_TESTS / path]
    found = next((place for place in places if place.exists()), None)
    assert found is not None, path
    if found.name.startswith("test_"):
        assert any(played(found).values()), f"no test of {path} is played in every run"


@pytest.mark.parametrize("name", NAMES)
def test_a_name_of_the_page_is_defined(name):
    owner, _, last = _NAME.match(name).group().rpartition(".")
    assert last in symbols().get(owner.rpartition(".")[2], frozenset()), name


@pytest.mark.parametrize("name", TESTS)
def test_a_test_of_the_page_runs_in_every_run_of_the_tests(name):
    found = {test: plays for file in UNNAMED_TESTS.glob("test_*.py") for test, plays in played(file).items()}
    assert name in found, f"{name} is nowhere"
    assert found[name], f"{name} is exhaustive; name one that every run plays"
