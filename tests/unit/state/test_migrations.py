"""Control tables of an older layout: migrated once, in one commit, and read meanwhile; unknown layouts are refused."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from airflow_backfill_provider.core.errors import StateError, StateLayoutError
from airflow_backfill_provider.state import control_table
from airflow_backfill_provider.state.conditions import Since
from airflow_backfill_provider.state.control_table import ControlTable, Write
from airflow_backfill_provider.state.migrations import FIRST_LAYOUT, MIGRATIONS, Migrations
from airflow_backfill_provider.state.store import BackfillStore
from tests.builders import barrier_of, commit_file, commit_of, settings_of

FIRST = pa.schema([("n", pa.int64()), ("who", pa.string())])
SECOND = pa.schema([("n", pa.int64()), ("who", pa.string()), ("hours", pa.int32())])
THIRD = pa.schema([("n", pa.int64()), ("who", pa.string()), ("seconds", pa.int64())])


def with_hours(name, rows):
    return rows.append_column("hours", pa.array([2] * rows.num_rows, pa.int32()))


def in_seconds(name, rows):
    seconds = [hours * 3600 for hours in rows.column("hours").to_pylist()]
    return rows.drop_columns(["hours"]).append_column("seconds", pa.array(seconds, pa.int64()))


ONE = Migrations({3: with_hours})
TWO = Migrations({3: with_hours, 4: in_seconds})


def row(n, schema=FIRST, **more):
    return pa.Table.from_pylist([{"n": n, "who": "tester", **more}], schema=schema)


@pytest.fixture
def old(lake):
    """A table of the first layout with three rows."""
    table = ControlTable(str(lake / "control"), FIRST)
    table.create()
    for n in (1, 2, 3):
        table.update(lambda _, n=n: Write(row(n)))
    return table


def opened(old, schema, migrations):
    return ControlTable(old.location, schema, migrations=migrations)


def values(table, where=None):
    return sorted(tuple(found.values()) for found in table.read(where).to_pylist())


def files(table):
    return {path: path.read_bytes() for path in Path(table.location).rglob("*") if path.is_file()}


def test_this_package_has_no_migrations_yet():
    assert MIGRATIONS.newest == FIRST_LAYOUT == 2


@pytest.mark.parametrize("numbers", [[2], [4], [3, 5], [4, 3]])
def test_migrations_are_numbered_without_a_gap(numbers):
    with pytest.raises(ValueError, match="but must produce"):
        Migrations(dict.fromkeys(numbers, with_hours))


@pytest.mark.parametrize(
    ("schema", "migrations", "last"),
    [(SECOND, ONE, 2), (THIRD, TWO, 7200)],
    ids=["one step", "two steps"],
)
def test_a_write_to_an_older_table_migrates_it(old, schema, migrations, last):
    table = opened(old, schema, migrations)
    seen = []

    def decide(rows):
        seen.append(rows.column_names)
        return Write(row(4, schema, **{schema.names[-1]: 5}))

    version = DeltaTable(old.location).version()
    table.update(decide)
    assert seen == [schema.names], "it decides on migrated rows"
    assert values(table) == [(1, "tester", last), (2, "tester", last), (3, "tester", last), (4, "tester", 5)]
    assert DeltaTable(old.location).version() == version + 2, "the migration is one commit"
    table.update(lambda _: None)
    assert DeltaTable(old.location).version() == version + 2, "and is done once"


def test_a_table_is_migrated_again_by_the_next_package(old):
    opened(old, SECOND, ONE).update(lambda _: None)
    assert values(opened(old, SECOND, ONE)) == [(n, "tester", 2) for n in (1, 2, 3)]
    opened(old, THIRD, TWO).update(lambda _: None)
    assert values(opened(old, THIRD, TWO)) == [(n, "tester", 7200) for n in (1, 2, 3)]


def test_an_empty_table_is_migrated_and_written_to(lake):
    old = ControlTable(str(lake / "control"), FIRST)
    old.create()
    table = opened(old, THIRD, TWO)
    assert (values(table), table.greatest("n")) == ([], 0)
    table.update(lambda rows: Write(row(rows.num_rows + 1, THIRD, seconds=1)))
    assert values(table) == [(1, "tester", 1)]


def test_a_read_leaves_an_older_table_as_it_is(old):
    before = files(old)
    table = opened(old, THIRD, TWO)
    assert values(table) == [(n, "tester", 7200) for n in (1, 2, 3)]
    assert values(table, "n > 1 AND seconds = 7200") == [(2, "tester", 7200), (3, "tester", 7200)]
    assert table.greatest("n") == 3
    assert table.read_since("n", 3).num_rows == 1
    assert table.read_last("n", 2)[1].num_rows == 2
    table.create()
    assert files(old) == before


def test_a_reader_sees_what_is_written_in_the_older_layout_meanwhile_and_after_the_migration(old):
    reader = opened(old, SECOND, ONE)
    assert len(values(reader)) == 3
    old.update(lambda _: Write(row(4)))
    assert values(reader)[-1] == (4, "tester", 2)
    opened(old, SECOND, ONE).update(lambda _: Write(row(5, SECOND, hours=9)))
    assert values(reader)[-2:] == [(4, "tester", 2), (5, "tester", 9)]


def test_an_older_package_refuses_a_migrated_table_and_says_to_upgrade(old):
    """Also one that has read it before, and where the columns have stayed the same."""
    same = Migrations({3: lambda _, rows: rows})
    assert len(values(old)) == 3
    opened(old, FIRST, same).update(lambda _: None)
    for look in (old.read, old.create, lambda: old.greatest("n"), lambda: old.update(lambda _: Write(row(4)))):
        with pytest.raises(StateLayoutError, match="has layout version 3, .* upgrade airflow-backfill-provider"):
            look()
    assert len(values(opened(old, FIRST, same))) == 3


def test_a_crash_before_the_migration_is_committed_leaves_the_older_table(old, monkeypatch):
    """I2: the next writer does it."""
    table, write = opened(old, THIRD, TWO), control_table.write_deltalake

    def killed(*args, **options):
        write(*args, **options)
        commit_file(old.location, 4).unlink()
        raise KeyboardInterrupt

    monkeypatch.setattr(control_table, "write_deltalake", killed)
    with pytest.raises(KeyboardInterrupt):
        table.update(lambda _: Write(row(4, THIRD, seconds=1)))
    monkeypatch.undo()
    assert values(old) == [(n, "tester") for n in (1, 2, 3)]
    table.update(lambda _: Write(row(4, THIRD, seconds=1)))
    assert [found[0] for found in values(table)] == [1, 2, 3, 4]


def test_a_crash_after_the_migration_leaves_the_newer_table(old):
    table = opened(old, THIRD, TWO)

    def killed(_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        table.update(killed)
    assert values(opened(old, THIRD, TWO)) == [(n, "tester", 7200) for n in (1, 2, 3)]


def test_writers_at_once_migrate_a_table_once_and_lose_nothing(old):
    """I5: of two, one commits against the other's version and starts again."""
    start = threading.Barrier(4)

    def work(_):
        table = opened(old, THIRD, TWO)
        start.wait()
        table.update(lambda rows: Write(row(max(rows.column("n").to_pylist()) + 1, THIRD, seconds=1)))

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(work, range(4)))
    assert [found[0] for found in values(opened(old, THIRD, TWO))] == [1, 2, 3, 4, 5, 6, 7]
    commits = [commit_file(old.location, n).read_text(encoding="utf-8") for n in range(4, 9)]
    assert ["metaData" in commit for commit in commits] == [True, False, False, False, False]


def test_a_writer_of_the_older_layout_that_is_faster_is_migrated_too(old, monkeypatch):
    """I5: what came in between is not overwritten."""
    table, migrated = opened(old, SECOND, ONE), []

    def slow(name, rows):
        if not migrated:
            old.update(lambda _: Write(row(4)))
        migrated.append(rows.num_rows)
        return with_hours(name, rows)

    table._migrations = Migrations({3: slow})
    table.update(lambda _: None)
    assert migrated == [3, 4]
    assert [found[0] for found in values(table)] == [1, 2, 3, 4]


def test_a_zombie_of_the_older_layout_writes_nothing(old):
    """I5: it decided on rows that do not exist any more."""

    def decide(rows):
        opened(old, SECOND, ONE).update(lambda _: None)
        return Write(row(rows.num_rows + 1))

    with pytest.raises(StateLayoutError, match="upgrade"):
        old.update(decide)
    assert len(values(opened(old, SECOND, ONE))) == 3


@pytest.mark.parametrize("read_only", [True, False])
def test_rows_that_are_damaged_are_not_migrated(old, read_only):
    """I6: the stamps are those of the older rows."""
    DeltaTable(old.location).delete("n = 2")
    before, table = files(old), opened(old, SECOND, ONE)
    with pytest.raises(StateError, match="row __version 2 of 3 is missing"):
        table.read() if read_only else table.update(lambda _: None)
    assert files(old) == before


@pytest.mark.parametrize("migration", [lambda _, rows: rows, in_seconds], ids=["other columns", "fails"])
def test_a_table_that_a_migration_does_not_fit_is_refused_as_it_is(old, migration):
    """I6: another writer changed its columns."""
    before, table = files(old), opened(old, SECOND, Migrations({3: migration}))
    for look in (table.read, lambda: table.update(lambda _: None)):
        with pytest.raises(StateLayoutError, match="cannot be read: .* restore"):
            look()
    assert files(old) == before


def test_migrated_rows_are_stamped_like_any_others(old):
    table = opened(old, SECOND, ONE)
    for n in (4, 5):
        table.update(lambda _, n=n: Write(row(n, SECOND, hours=n)), reading=Since("n", n - 1))
    DeltaTable(old.location).update({"hours": "7"}, predicate="n = 1")
    with pytest.raises(StateError, match="has a wrong checksum"):
        opened(old, SECOND, ONE).read()


def test_compaction_keeps_the_layout(old, monkeypatch):
    monkeypatch.setattr(control_table, "_COMPACT_FILES_AT", 2)
    table = opened(old, SECOND, ONE)
    table.update(lambda _: Write(row(4, SECOND, hours=1)))
    assert len(DeltaTable(old.location).file_uris()) == 1
    assert len(values(opened(old, SECOND, ONE))) == 4


class NextPackage(BackfillStore):
    """The store of a package in the layout of which a record of the settings has one more field."""

    def _table(self, name, schema):
        return ControlTable(f"{self.location}/{name}", schema, migrations=Migrations({3: cancelled_by}))


def cancelled_by(name, rows):
    """Write another value into each record of the settings; other tables stay."""
    if name != "settings":
        return rows
    records = [json.dumps({**json.loads(text), "cancelled": True}) for text in rows.column("record").to_pylist()]
    return rows.set_column(rows.column_names.index("record"), "record", pa.array(records, pa.string()))


def test_a_job_goes_on_whichever_of_its_tables_are_migrated(lake):
    """Each table is migrated by the first write to it, and a crash may come between two of them."""
    place = str(lake / "state")
    BackfillStore(place).create(settings_of())
    barrier = BackfillStore(place).pin(barrier_of(1))
    store = NextPackage(place)
    assert store.settings().cancelled
    assert store.pinned(1) == barrier
    store.record_commit(barrier, commit_of(barrier))
    assert NextPackage(place).commit_of(1) == commit_of(barrier)
    with pytest.raises(StateLayoutError, match=r"barrier_log has layout version 3, .* upgrade"):
        BackfillStore(place).barriers()
    assert not BackfillStore(place).settings().cancelled, "this one was not written to yet"
