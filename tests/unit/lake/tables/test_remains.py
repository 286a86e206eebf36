"""What is left of a table that was never committed, as deltalake lists it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_backfill_provider.core.errors import MaterializedViewError
from airflow_backfill_provider.lake.tables.remains import create_clause, has_remains

PART = "part-00000-0b9c1e0c-3a56-4a5e-9c5c-4b5f3f1e2d3c-c000.snappy.parquet"


@pytest.fixture
def view(tmp_path: Path) -> Path:
    return tmp_path / "view"


def write(file: Path, rows: int) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"id": list(range(rows))}), file)


def test_an_empty_place_has_none(view):
    view.mkdir()
    assert not has_remains(str(view))


@pytest.mark.parametrize("parts", [0, 1])
def test_what_a_creation_leaves_that_died_is_known(view, parts):
    log = view / "_delta_log"
    log.mkdir(parents=True)
    (log / ".00000000000000000000.json.5d3c.tmp").write_text("{")
    (log / "_staged_commits").mkdir()
    (log / "_staged_commits" / "00000000000000000000.5d3c.json").write_text("{")
    if parts:
        write(view / PART, rows=0)
    assert has_remains(str(view))


def test_a_local_folder_is_empty_by_then(view):
    assert create_clause(str(view)) == "CREATE TABLE IF NOT EXISTS"


def test_an_object_in_place_of_the_log_s_folder_is_left_of_a_creation(view):
    view.mkdir()
    (view / "_delta_log").touch()
    assert has_remains(str(view))


@pytest.mark.parametrize(
    "name", ["thesis.txt", f"year=2026/{PART}", "_delta_log/00000000000000000000.json", "orders.parquet", PART]
)
def test_anything_else_is_refused(view, name):
    """I6: files without rows count only if Delta named them, and a commit is never taken for a remain."""
    write(view / name, rows=1 if name == PART else 0)
    with pytest.raises(MaterializedViewError, match="holds files, but no Delta table; choose an empty folder"):
        has_remains(str(view))


def test_a_damaged_file_is_refused(view):
    view.mkdir()
    (view / PART).write_text("precious")
    with pytest.raises(MaterializedViewError, match="holds files"):
        has_remains(str(view))
