"""The rules of the house that no linter checks."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("airflow_backfill_provider", "bench", "dags", "demo", "docs", "faults", "scripts", "spark_apps", "tests")
CODE = frozenset({".css", ".js", ".py", ".sh"})
MOST_LINES = 400


def too_long(root):
    """Return the files of code under a folder that have too many lines, with their numbers of lines."""
    lengths = {
        str(file.relative_to(root)): len(file.read_text(encoding="utf-8").splitlines())
        for folder in FOLDERS
        for file in root.joinpath(folder).rglob("*")
        if file.suffix in CODE and not any(part.startswith(".") for part in file.relative_to(root).parts)
    }
    return {name: lines for name, lines in lengths.items() if lines > MOST_LINES}


def test_no_file_of_code_is_too_long():
    """A longer file has more than one subject: split it, and name each part after its subject."""
    assert too_long(ROOT) == {}


@pytest.mark.parametrize(("lines", "found"), [(400, {}), (401, {"docs/a.py": 401})])
def test_a_file_may_have_400_lines(tmp_path, lines, found):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.py").write_text("x\n" * lines, encoding="utf-8")
    (tmp_path / "docs" / "a.md").write_text("x\n" * 500, encoding="utf-8")
    assert too_long(tmp_path) == found


def circle(imports: Mapping[str, AbstractSet[str]]) -> list[str]:
    """Return modules of which each imports the next one, from the first to itself; nothing if there is no circle."""
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        return list(reversed(error.args[1]))
    return []


def test_no_modules_import_each_other_in_a_circle():
    """
    Imports within functions and those for types alone count. What is needed on both sides has a place below both.

    import-linter's contract finds circles between siblings. This one also finds those through a folder's own module.
    """
    graph = grimp.build_graph("airflow_backfill_provider", exclude_type_checking_imports=False, cache_dir=None)
    assert circle({module: graph.find_modules_directly_imported_by(module) for module in graph.modules}) == []


def test_a_circle_of_imports_is_found():
    assert circle({"a": {"b"}, "b": {"c"}, "c": set()}) == []
    found = circle({"a": {"b"}, "b": {"c"}, "c": {"b"}})
    assert found in (["b", "c", "b"], ["c", "b", "c"])
