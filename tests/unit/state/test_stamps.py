"""Rows of control tables that another writer edited, added or removed are refused, whichever way they are read (I6)."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from random import Random

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder, write_deltalake

from airflow_backfill_provider.core.errors import StateError
from airflow_backfill_provider.state import stamps
from airflow_backfill_provider.state.conditions import AtLeast
from airflow_backfill_provider.state.control_table import ControlTable, Write

SCHEMA = pa.schema([("n", pa.int64()), ("who", pa.string())])


@pytest.fixture
def table(lake):
    """A log of five rows, each of a write of its own."""
    made = ControlTable(str(lake / "control"), SCHEMA)
    made.create()
    for n in range(1, 6):
        made.update(lambda _: Write(pa.table({"n": [n], "who": ["tester"]}, SCHEMA)))  # noqa: B023 - called at once
    return made


def stored(table):
    rows = QueryBuilder().register("t", DeltaTable(table.location)).execute("SELECT * FROM t")
    return pa.table(rows.read_all()).to_pylist()


def edit(table):
    DeltaTable(table.location).update(predicate="n = 4", updates={"who": "'another writer'"})


def renumber(table):
    DeltaTable(table.location).update(predicate="n = 4", updates={"n": "1"})


def remove(table):
    DeltaTable(table.location).delete("n = 4")


def remove_the_newest(table):
    DeltaTable(table.location).delete("n = 5")


def remove_all(table):
    DeltaTable(table.location).delete()


def restore(table):
    DeltaTable(table.location).restore(4)


def add(table):
    row = {**stored(table)[0], "n": 6, stamps.VERSION: 6}
    write_deltalake(table.location, pa.Table.from_pylist([row], stamps.stamped_schema(SCHEMA)), mode="append")


def add_unstamped(table):
    write_deltalake(table.location, pa.table({"n": [6], "who": ["x"]}, SCHEMA), mode="append", schema_mode="merge")


def repeat(table):
    write_deltalake(
        table.location,
        pa.Table.from_pylist([row for row in stored(table) if row["n"] == 4], stamps.stamped_schema(SCHEMA)),
        mode="append",
    )


OTHER_WRITERS = [repeat, edit, renumber, remove, remove_the_newest, remove_all, restore, add, add_unstamped]


@pytest.mark.slow
@pytest.mark.parametrize("change", OTHER_WRITERS)
@pytest.mark.parametrize("reading", ["all", "since", "last", "to write"])
def test_an_edit_by_another_writer_is_refused_and_nothing_is_written(table, change, reading):
    change(table)
    version = DeltaTable(table.location).version()
    looks = {
        "all": table.read,
        "since": lambda: table.read_since("n", 3),
        "last": lambda: table.read_last("n", 3),
        "to write": lambda: table.update(
            lambda _: Write(pa.table({"n": [9], "who": ["late"]}, SCHEMA)), reading=AtLeast("n", 3)
        ),
    }
    with pytest.raises(StateError) as caught:
        looks[reading]()
    assert table.location in str(caught.value)
    assert "create the job again" in str(caught.value)
    assert not caught.value.retryable
    assert DeltaTable(table.location).version() == version


def test_an_edited_row_is_named_by_its_number_and_content(table):
    edit(table)
    with pytest.raises(StateError, match=r"row __version 4 \(n 4\)"):
        table.read()
    with pytest.raises(StateError, match=r"row __version 4 \(n 4\)"):
        table.read("n = 4")
    assert table.read("n = 3").num_rows == 1


def test_a_lost_row_is_named_by_its_number(table):
    remove(table)
    with pytest.raises(StateError, match="row __version 4 of 5 is missing"):
        table.read()


def test_a_row_of_an_earlier_number_that_came_late_is_no_gap(table):
    """A zombie reports an earlier epoch after a later one was pinned."""
    table.update(lambda _: Write(pa.table({"n": [2], "who": ["zombie"]}, SCHEMA)))
    table.update(lambda _: Write(pa.table({"n": [6], "who": ["tester"]}, SCHEMA)))
    assert sorted(table.read_since("n", 5).column("n").to_pylist()) == [5, 6]
    assert table.read().num_rows == 7


def test_rows_that_replaced_all_others_have_one_number(table):
    table.update(lambda _: Write(pa.table({"n": [1, 2, 3], "who": ["a", "b", "c"]}, SCHEMA), "overwrite"))
    assert table.read().num_rows == 3
    assert {row[stamps.VERSION] for row in stored(table)} == {6}
    DeltaTable(table.location).restore(5)
    with pytest.raises(StateError, match="row __version 6 of 6 is missing"):
        table.read()


def test_compaction_and_vacuum_by_anybody_are_no_damage(table):
    opened = DeltaTable(table.location)
    opened.optimize.compact()
    opened.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    assert table.read().num_rows == 5


VALUES = {
    pa.int64(): [0, 1, -1],
    pa.string(): ["", "a", "a\x1f1", "\x00", "None", "läke"],
    pa.binary(): [b"", b"\x00", b"\xff\xfe"],
    pa.bool_(): [True, False],
    pa.decimal128(38, 2): [Decimal("0.00"), Decimal("-1.25")],
    pa.date32(): [dt.date(1, 1, 1), dt.date(9999, 12, 31)],
    pa.timestamp("us", "UTC"): [dt.datetime(2026, 1, 1, microsecond=i, tzinfo=dt.UTC) for i in range(2)],
    pa.timestamp("us"): [dt.datetime(1, 1, 1), dt.datetime(2026, 1, 1, microsecond=1)],
    pa.float64(): [0.1, 0.1 + 0.2, -0.0],
}


@pytest.mark.parametrize("kind", VALUES, ids=str)
def test_every_value_of_a_type_has_a_checksum_of_its_own(kind):
    values = [None, *VALUES[kind]]
    rows = stamps.stamped(pa.table({"value": pa.array(values, kind)}), 1)
    stamps.require_stamps(rows, "t")
    assert len(set(rows.column(stamps.CHECKSUM).to_pylist())) == len(values)
    changed = rows.set_column(2, "value", pa.array([*values[1:], values[0]], kind))
    with pytest.raises(StateError, match=r"row __version 1 \(value"):
        stamps.require_stamps(changed, "t")


def test_rows_that_share_a_checksum_by_chance_are_not_one_row_twice():
    """Of hundreds of thousands of rows in one write, some do."""
    numbers = Random(1).sample(range(2**62), 200_000)
    rows = pa.table({"n": numbers, "who": ["tester"] * len(numbers)}, SCHEMA)
    stamped = stamps.stamped(rows, 1)
    checksums = stamped.column(stamps.CHECKSUM).to_pylist()
    last = dict(zip(checksums, range(len(checksums)), strict=True))
    alike = next([first, last[checksum]] for first, checksum in enumerate(checksums) if last[checksum] != first)

    stamps.require_stamps(stamped.take(alike), "t")

    for twice in ([*alike, alike[0]], [alike[0], alike[0]]):
        with pytest.raises(StateError, match=f"n {numbers[alike[0]]}. is repeated"):
            stamps.require_stamps(stamped.take(twice), "t")


def test_a_text_cannot_pass_for_two_columns():
    one, other = ({"a": "x", "b": "y\x1f1"}, {"a": "x\x1f1", "b": "y"})
    rows = stamps.stamped(pa.Table.from_pylist([one, other]), 1)
    assert len(set(rows.column(stamps.CHECKSUM).to_pylist())) == 2


def test_a_row_without_a_checksum_is_not_as_it_was_written():
    rows = stamps.stamped(pa.table({"n": [7], "who": ["tester"]}, SCHEMA), 1)
    stamps.require_stamps(rows, "/log")
    bare = rows.set_column(1, rows.schema.field(1), pa.array([None], pa.int64()))
    with pytest.raises(StateError, match=r"/log: row __version 1 \(n 7\) has a wrong checksum"):
        stamps.require_stamps(bare, "/log")


def test_numbers_cannot_pass_for_other_numbers_beside_each_other():
    schema = pa.schema([("n", pa.int64()), ("m", pa.int64())])
    sums = [
        stamps.stamped(pa.table({"n": [n], "m": [m]}, schema), version).column(stamps.CHECKSUM)[0].as_py()
        for version, n, m in ((1, 2, 34), (1, 23, 4), (12, 3, 4))
    ]
    assert len(set(sums)) == 3


@pytest.mark.parametrize(("there", "gone"), [((1, 2, 3), 4), ((1, 2, 4), 3), ((2, 4), 3)])
def test_the_first_write_whose_rows_are_gone_is_named(there, gone):
    rows = pa.concat_tables(stamps.stamped(pa.table({"n": [0], "who": ["x"]}, SCHEMA), number) for number in there)
    with pytest.raises(StateError, match=f"/log: row __version {gone} of 4 is missing"):
        stamps.require_writes(rows, 4, "/log")


def test_writes_that_are_all_there_are_accepted_in_any_order():
    rows = [stamps.stamped(pa.table({"n": [0], "who": ["x"]}, SCHEMA), number) for number in (3, 2, 4)]
    stamps.require_writes(pa.concat_tables(rows), 4, "/log")
