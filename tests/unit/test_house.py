"""The rules of the house that no linter checks."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
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


READ_BY_THREADS = frozenset({"ParquetFile", "ParquetDataset", "dataset", "read_table", "to_pyarrow_dataset"})
READ_BY_THREADS |= {"to_pandas", "to_pyarrow_table", "to_table"}
THREADED_UNLESS_TOLD = frozenset({"group_by"})
READER = "airflow_backfill_provider/lake/stored_parquet.py"


def reads_by_threads(text: str) -> Iterator[int]:
    """Yield the lines of a program that have Arrow's threads read Python's files, or group rows."""
    tree = ast.parse(text)
    uses_arrow = any(
        isinstance(node, ast.Import | ast.ImportFrom)
        and ("pyarrow" in ast.unparse(node) or "deltalake" in ast.unparse(node))
        for node in ast.walk(tree)
    )
    if not uses_arrow:
        return
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        told = any(word.arg == "use_threads" for word in node.keywords)
        if node.func.attr in READ_BY_THREADS or (node.func.attr in THREADED_UNLESS_TOLD and not told):
            yield node.lineno


def test_no_thread_of_arrows_holds_bytes_of_pythons():
    """
    Such a thread aborts the process if it lets go of them while the interpreter is torn down: exit code 134.

    Parquet files are read by ``lake/stored_parquet.py``, and rows of Delta tables by ``lake/files/rows.py``.
    """
    files = (
        file for folder in ("airflow_backfill_provider", "spark_apps") for file in ROOT.joinpath(folder).rglob("*.py")
    )
    found = {
        name: lines
        for file in files
        if (name := str(file.relative_to(ROOT))) != READER
        if (lines := [*reads_by_threads(file.read_text(encoding="utf-8"))])
    }
    assert found == {}


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("pq.ParquetFile(file).read()", [2]),
        ("pq.read_table(file)", [2]),
        ("table.to_pyarrow_table()", [2]),
        ("rows.group_by('a')", [2]),
        ("rows.group_by('a', use_threads=False)", []),
        ("pq.read_metadata(file)", []),
        ("StoredParquet(file).read()", []),
    ],
)
def test_a_reading_by_threads_is_found(line, found):
    assert [*reads_by_threads(f"import pyarrow.parquet as pq\n{line}\n")] == found
    assert [*reads_by_threads(f"import json\n{line}\n")] == []


KEEPS = frozenset({"cache", "localCheckpoint", "persist"})


def keeps_in_memory(text: str) -> Iterator[int]:
    """Yield the lines of a program that have Spark keep rows elsewhere than ``KEPT`` says."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in KEEPS:
            told = [*map(ast.unparse, node.args), *(ast.unparse(word.value) for word in node.keywords)]
            is_of_rows = "functools" not in ast.unparse(node.func)
            if is_of_rows and "KEPT" not in told:
                yield node.lineno


def test_no_rows_are_kept_in_memory():
    """The rows of one job may be a megabyte wide, and Spark reads many before it asks whether they fit."""
    files = (file for folder in ("engine", "shapes", "sources", "spark", "strategies") for file in _package(folder))
    found = {
        str(file.relative_to(ROOT)): lines
        for file in files
        if (lines := [*keeps_in_memory(file.read_text(encoding="utf-8"))])
    }
    assert found == {}


def _package(folder: str) -> Iterator[Path]:
    return ROOT.joinpath("airflow_backfill_provider", folder).rglob("*.py")


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("rows.persist()", [1]),
        ("rows.persist(StorageLevel.MEMORY_ONLY)", [1]),
        ("rows.persist(KEPT)", []),
        ("rows.select('a').cache()", [1]),
        ("rows.localCheckpoint()", [1]),
        ("rows.localCheckpoint(storageLevel=KEPT)", []),
        ("rows.unpersist()", []),
        ("functools.cache(read)", []),
    ],
)
def test_rows_that_are_kept_in_memory_are_found(line, found):
    assert [*keeps_in_memory(line)] == found
