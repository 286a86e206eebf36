"""Control tables that are damaged, missing, or of an unknown layout are refused (I6)."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from airflow_backfill_provider.core.errors import StateLayoutError
from airflow_backfill_provider.state.control_table import ControlTable, Write
from airflow_backfill_provider.state.stamps import stamped_schema
from tests.builders import commit_file
from tests.unit.state.counted_table import SCHEMA, add_next, damage_data_cut, data_files, row


def damage_log(table):
    """Cut off the newest entry, as a crash of the machine does."""
    file = commit_file(table.location, 1)
    file.write_bytes(file.read_bytes()[:40])


def damage_log_binary(table):
    commit_file(table.location, 1).write_bytes(b"\x00\xff\x80" * 50)


def damage_log_hole(table):
    commit_file(table.location, 0).unlink()


def damage_data_gone(table):
    for file in data_files(table):
        file.unlink()


def damage_foreign_column(table):
    write_deltalake(
        table.location, pa.table({"n": [9], "who": ["x"], "extra": [1]}), mode="overwrite", schema_mode="overwrite"
    )


def damage_other_table(table):
    write_deltalake(table.location, pa.table({"a": [1]}), mode="overwrite", schema_mode="overwrite")


def damage_other_types(table):
    write_deltalake(
        table.location, pa.table({"n": ["not a number"], "who": ["x"]}), mode="overwrite", schema_mode="overwrite"
    )


DAMAGE = [
    damage_log,
    damage_log_binary,
    damage_log_hole,
    damage_data_gone,
    damage_data_cut,
    damage_foreign_column,
    damage_other_table,
    damage_other_types,
]


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_table_is_refused_with_what_to_do_and_never_written_to(table, damage):
    """I6: unreadable state."""
    add_next(table)
    add_next(table)
    damage(table)
    before = {path: path.read_bytes() for path in Path(table.location).rglob("*") if path.is_file()}
    for look in (table.read, lambda: add_next(table)):
        with pytest.raises(StateLayoutError) as caught:
            look()
        assert table.location in str(caught.value)
        assert "create the job again" in str(caught.value)
        assert not caught.value.retryable
    assert {path: path.read_bytes() for path in Path(table.location).rglob("*") if path.is_file()} == before


def test_a_missing_table_is_refused_with_what_to_do(tmp_path):
    with pytest.raises(
        StateLayoutError, match="is missing; restore .* or delete them and the view, and create the job again"
    ):
        ControlTable(str(tmp_path / "control"), SCHEMA).read()


@pytest.mark.parametrize(
    ("layout", "refused"),
    [("2", False), ("1", True), ("3", True), ("999", True), (None, True), ("", True), ("one", True), ("1.5", True)],
)
def test_an_unknown_layout_is_refused_before_a_row_is_read(tmp_path, layout, refused):
    """I6 and docs/concepts/rules.md#state-is-written-when-it-changes: checked on open."""
    configuration = {} if layout is None else {"backfill.layoutVersion": layout}
    table = ControlTable(str(tmp_path / "control"), SCHEMA)
    DeltaTable.create(
        table.location, stamped_schema(SCHEMA), configuration=configuration, raise_if_key_not_exists=False
    )
    for look in (table.read, table.create, lambda: table.update(lambda _: Write(row(1))), lambda: table.greatest("n")):
        if not refused:
            look()
            continue
        with pytest.raises(StateLayoutError, match="upgrade airflow-backfill-provider") as caught:
            look()
        assert f"layout version {layout}" in str(caught.value)
