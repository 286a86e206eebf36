"""Rows of a Delta table, by conditions."""

from __future__ import annotations

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from airflow_backfill_provider.lake.files.rows import largest_group, read_rows, text_literal


@pytest.fixture
def people(lake):
    """A function that writes a table with some names, and opens it."""

    def write(*names):
        path = str(lake / "people")
        write_deltalake(path, pa.table({"n": range(1, len(names) + 1), "who": names}), mode="overwrite")
        return DeltaTable(path)

    return write


def test_rows_are_read_whole_or_by_a_condition(people):
    table = people("a", "b", "c")
    assert read_rows(table, ending="ORDER BY n").to_pydict() == {"n": [1, 2, 3], "who": ["a", "b", "c"]}
    assert read_rows(table, "n", where="n >= 2", ending="ORDER BY n DESC LIMIT 1").to_pydict() == {"n": [3]}
    assert read_rows(table, "who", where="n > 9").num_rows == 0


def test_an_open_table_is_read_at_its_version(people):
    table = people("a", "b", "c")
    people("d")
    assert read_rows(table).num_rows == 3


@pytest.mark.parametrize("text", ["", "'", "''", "a'; DROP TABLE people; --", "\\'", "ü\n\u2028", '"', "%", "`", "{}"])
def test_a_text_in_a_condition_is_nothing_but_text(people, text):
    """A hostile name stays inside of its quotes."""
    assert read_rows(people(text, text + "x"), "n", where=f"who = {text_literal(text)}").to_pydict() == {"n": [1]}


def test_the_largest_group_is_counted_with_nulls_and_any_name(lake):
    """NULL is a group like others, and a name with a quotation mark is a name."""
    path = str(lake / "people")
    write_deltalake(path, pa.table({'w"ho': ["a", None, None, "b"], "Of": [1, 2, 2, 1]}))
    table = DeltaTable(path)
    assert (largest_group(table, ['w"ho', "Of"]), largest_group(table, ["Of"])) == (2, 2)
    table.delete()
    assert largest_group(DeltaTable(path), ["Of"]) == 0
