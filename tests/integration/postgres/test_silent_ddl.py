"""DDL after which values are others, or seem so, although the log has no changes of rows; without Spark."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

from airflow_backfill_provider.core.epoch.settings import ResolvedUpstream, UpstreamColumn
from airflow_backfill_provider.core.errors import (
    BackfillError,
    ChangeFeedGapError,
    InvalidJobError,
    UpstreamSchemaChangedError,
)
from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.sources.postgres.definition import PostgresUpstream
from airflow_backfill_provider.sources.postgres.source import PostgresSource
from airflow_backfill_provider.sources.postgres.table import PostgresTable
from tests.postgres_server import PostgresServer
from tests.variants import exhaustive, mostly_exhaustive

pytestmark = pytest.mark.spark

_numbers = itertools.count()

COLUMNS = {
    "id": "int PRIMARY KEY",
    "doc": "json",
    "at": "timestamp",
    "code": "char(5)",
    "short": "varchar(10)",
    "name": "text",
    "other": "text",
    "big": "numeric",
    "mood": "mood",
    "moods": "mood[]",
    "place": "place",
    "low": "low",
    "unused": "int",
}
USED = frozenset(COLUMNS) - {"unused"}
ROW = "'{\"a\": 1}', now(), 'ab', 'short', 'name', 'other', 1.234, 'sad', '{ok}', '(1)', 5, 1"


@dataclass
class Table:
    """A table of a database, and a job over it as of its creation."""

    database: psycopg.Connection[tuple[Any, ...]]
    source: PostgresSource
    created: ResolvedUpstream
    begin: Offset

    def run_sql(self, *statements: str) -> None:
        """Run statements in one transaction; ``VACUUM`` needs its own."""
        if len(statements) == 1:
            self.database.execute(statements[0])
            return
        with self.database.transaction():
            for statement in statements:
                self.database.execute(statement)

    def check(self) -> None:
        """Do what each request for a barrier does, and then what its epoch does."""
        source, created = self.source, self.created
        source.refresh()
        described = source.at(source.latest())
        described.require_as_created(created)
        source.require_same_values(self.begin, described.offset, created)
        source.require_changes(self.begin, described.offset)
        source.require_used_columns(self.begin, described.offset, created)

    def assert_refused(self, message: str, error: type[BackfillError] = UpstreamSchemaChangedError) -> None:
        """Not only once: until the job is rebuilt."""
        for _ in range(2):
            with pytest.raises(error, match=message):
                self.check()


@pytest.fixture
def table(postgres: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Table]:
    """A plain table."""
    with made(postgres.connect(new_database(postgres, monkeypatch)), tmp_path, "", ()) as found:
        yield found


@pytest.fixture
def partitioned(postgres: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Table]:
    """A partitioned table; one partition has its columns in another order."""
    attached = ", ".join(f"{name} {kind}" for name, kind in reversed(COLUMNS.items()))
    parts = (
        "CREATE TABLE low_part PARTITION OF orders FOR VALUES FROM (0) TO (3)",
        f"CREATE TABLE high_part (dropped int, {attached})",
        "ALTER TABLE high_part DROP dropped",
        "ALTER TABLE orders ATTACH PARTITION high_part FOR VALUES FROM (3) TO (1000)",
    )
    with made(
        postgres.connect(new_database(postgres, monkeypatch)), tmp_path, "PARTITION BY RANGE (id)", parts
    ) as found:
        yield found


def new_database(postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> str:
    name = f"ddl_{next(_numbers)}"
    postgres.create_database(name)
    monkeypatch.setenv("AIRFLOW_CONN_SHOP_DB", postgres.uri(name))
    return name


class made:  # noqa: N801 - a context manager
    """Makes the table and begins on it; drops the slot at the end."""

    def __init__(
        self, database: psycopg.Connection[tuple[Any, ...]], folder: Path, ending: str, parts: tuple[str, ...]
    ) -> None:
        self.database, self.folder, self.ending, self.parts = database, folder, ending, parts

    def __enter__(self) -> Table:
        self.database.execute("CREATE TYPE mood AS ENUM ('sad', 'ok')")
        self.database.execute("CREATE TYPE place AS (street int)")
        self.database.execute("CREATE DOMAIN low AS int CHECK (VALUE < 10)")
        columns = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
        for statement in (f"CREATE TABLE orders ({columns}) {self.ending}", *self.parts):
            self.database.execute(statement)
        self.database.execute(f"INSERT INTO orders SELECT i, {ROW} FROM generate_series(1, 5) i")
        upstream = PostgresUpstream(connection="shop_db", table="public.orders", key=("id",), as_text=("place",))
        self.source = PostgresSource(PostgresTable(upstream.for_job(self.database.info.dbname, str(self.folder))))
        described = self.source.at()
        begin = self.source.begin(self.database.info.dbname).offset
        created = ResolvedUpstream(
            table_id=described.table_id,
            columns=tuple(
                UpstreamColumn(name=name, type=kind) for name, kind in described.types.items() if name in USED
            ),
            pinned=described.pinned_for(USED),
        )
        return Table(self.database, self.source, created, begin)

    def __exit__(self, *_: object) -> None:
        self.source.end(self.database.info.dbname)
        self.database.close()


SILENT = {
    "another type with the same Delta type": (["ALTER TABLE orders ALTER doc TYPE jsonb"], "column doc was json"),
    "fewer digits of seconds": (["ALTER TABLE orders ALTER at TYPE timestamp(0)"], "column at was written anew"),
    "more padding": (["ALTER TABLE orders ALTER code TYPE char(8)"], "column code was written anew"),
    "cut texts": (
        ["ALTER TABLE orders ALTER short TYPE varchar(3) USING left(short, 3)"],
        "column short was written anew",
    ),
    "the same type, other values": (
        ["ALTER TABLE orders ALTER name TYPE text USING upper(name)"],
        "column name was written anew",
    ),
    "rounded numbers": (["ALTER TABLE orders ALTER big TYPE numeric(40, 2)"], "column big was written anew"),
    "dropped and added": (
        ["ALTER TABLE orders DROP name, ADD name text DEFAULT 'new'"],
        "column name is another column now",
    ),
    "dropped and added, generated": (
        ["ALTER TABLE orders DROP name, ADD name text GENERATED ALWAYS AS ('x') STORED"],
        "column name is another column now",
    ),
    "swapped names": (
        [
            "ALTER TABLE orders RENAME name TO swapped",
            "ALTER TABLE orders RENAME other TO name",
            "ALTER TABLE orders RENAME swapped TO other",
        ],
        "column name is another column now",
    ),
    "a renamed label": (["ALTER TYPE mood RENAME VALUE 'sad' TO 'blue'"], "labels of the enum of column mood"),
    "a label renamed and renamed back": (
        ["ALTER TYPE mood RENAME VALUE 'ok' TO 'fine'", "ALTER TYPE mood RENAME VALUE 'fine' TO 'ok'"],
        "labels of the enum of column mood",
    ),
    "another field": (["ALTER TYPE place ADD ATTRIBUTE city text"], "composite type of column place"),
    "written anew and touched": (
        ["ALTER TABLE orders ALTER name TYPE text USING upper(name)", "ALTER TABLE orders ALTER name SET STATISTICS 9"],
        "column name was written anew",
    ),
}


QUICK = {
    "another type with the same Delta type",
    "the same type, other values",
    "rounded numbers",
    "dropped and added",
    "swapped names",
    "a renamed label",
    "another field",
}


@pytest.mark.parametrize("kind", mostly_exhaustive(SILENT, QUICK))
def test_ddl_that_changes_values_in_silence_is_refused(table: Table, kind: str) -> None:
    """I6: also if no row changes."""
    statements, message = SILENT[kind]
    table.check()
    table.run_sql(*statements)
    table.assert_refused(message)


@pytest.mark.parametrize(
    "kind", [exhaustive("the same type, other values"), "swapped names", exhaustive("fewer digits of seconds")]
)
def test_ddl_on_a_partitioned_table_is_refused_too(partitioned: Table, kind: str) -> None:
    """I6: its partitions get the same change, and have numbers of their own."""
    statements, message = SILENT[kind]
    partitioned.run_sql("UPDATE orders SET name = 'n'")
    partitioned.check()
    partitioned.run_sql(*statements)
    partitioned.assert_refused(message)


HARMLESS = {
    "files written anew": ["VACUUM FULL orders", "CLUSTER orders USING orders_pkey", "REINDEX TABLE orders"],
    "an unused column": [
        "ALTER TABLE orders ALTER unused TYPE bigint",
        "ALTER TABLE orders RENAME unused TO remark",
        "ALTER TABLE orders DROP remark",
        "ALTER TABLE orders ADD remark int",
    ],
    "new columns": [
        "ALTER TABLE orders ADD fixed int DEFAULT 5",
        "ALTER TABLE orders ADD random float DEFAULT random()",
        "ALTER TABLE orders ADD doubled int GENERATED ALWAYS AS (id * 2) STORED",
    ],
    "what does not change values": [
        "ALTER TABLE orders ALTER name SET NOT NULL",
        "ALTER TABLE orders ALTER name SET DEFAULT 'x'",
        "ALTER TABLE orders ALTER name SET STATISTICS 9",
        "GRANT SELECT (name) ON orders TO PUBLIC",
        "ALTER TABLE orders ALTER short TYPE varchar(20)",
        "ALTER TABLE orders ALTER short TYPE text",
        "ALTER TYPE mood ADD VALUE 'new' BEFORE 'sad'",
        "ALTER TYPE mood RENAME TO feeling",
        "ALTER DOMAIN low DROP CONSTRAINT low_check",
        "ALTER TABLE orders REPLICA IDENTITY FULL",
    ],
    "touched, and its files written anew": ["ALTER TABLE orders ALTER name SET NOT NULL", "VACUUM FULL orders"],
    "an index made again": ["REINDEX TABLE CONCURRENTLY orders", "UPDATE orders SET name = 'x' WHERE id = 1"],
    "emptied and filled": ["TRUNCATE orders", f"INSERT INTO orders SELECT i, {ROW} FROM generate_series(1, 3) i"],
    "the catalog written anew": ["VACUUM (FULL, FREEZE) pg_attribute", "VACUUM (FULL, FREEZE) pg_enum"],
}


@pytest.mark.parametrize("kind", HARMLESS)
@pytest.mark.parametrize("looks", [True, exhaustive(False)])
def test_ddl_that_changes_no_used_value_is_not_refused(table: Table, kind: str, *, looks: bool) -> None:
    """Whether an epoch comes after each statement, or after all."""
    table.run_sql("UPDATE orders SET name = 'n' WHERE id = 2")
    for statement in HARMLESS[kind]:
        table.run_sql(statement)
        if looks:
            table.check()
    table.run_sql("UPDATE orders SET name = 'm' WHERE id = 2")
    table.check()


def test_a_default_that_is_not_stored_in_old_rows_may_be_written_into_them(table: Table) -> None:
    """``VACUUM FULL`` then writes the column's row in the catalog, too; the rows' transactions tell the difference."""
    used = [*table.created.columns, UpstreamColumn(name="fixed", type="integer")]
    table.run_sql("ALTER TABLE orders ADD fixed int DEFAULT 5")
    table.check()
    table.created = table.created.model_copy(
        update={"columns": tuple(used), "pinned": table.source.at().pinned_for(USED | {"fixed"})}
    )
    table.run_sql("VACUUM FULL orders")
    table.check()


@pytest.mark.parametrize("lands_between", [True, False])
def test_changes_under_swapped_names_are_refused_although_they_are_swapped_back(
    table: Table, *, lands_between: bool
) -> None:
    """I6: the log has names, and not which columns they mean."""
    swap = SILENT["swapped names"][0]
    table.run_sql(*swap)
    table.run_sql("UPDATE orders SET name = 'this was other' WHERE id = 1")
    if lands_between:
        table.source.refresh()
    table.run_sql(*swap)
    table.assert_refused("another column had the name (name|other)")


def test_a_swap_with_an_unused_column_is_noticed(table: Table) -> None:
    table.run_sql("ALTER TABLE orders RENAME low TO swapped", "ALTER TABLE orders RENAME unused TO low")
    table.run_sql("UPDATE orders SET low = 3 WHERE id = 1")
    table.run_sql("ALTER TABLE orders RENAME low TO unused", "ALTER TABLE orders RENAME swapped TO low")
    table.assert_refused("another column had the name low|column low was gone")


@pytest.mark.parametrize(
    "statements",
    [
        ["INSERT INTO orders (id, name) VALUES (3, 'second')", "DELETE FROM orders WHERE id = 3 AND name = 'name'"],
        ["UPDATE orders SET id = 4 WHERE id = 3", "DELETE FROM orders WHERE id = 4 AND ctid = '(0,4)'"],
    ],
)
def test_a_key_that_was_dropped_and_made_again_while_rows_changed_is_a_gap(table: Table, statements: list[str]) -> None:
    """I6: for a moment two rows have one key, and the log says that it was deleted."""
    table.run_sql("ALTER TABLE orders REPLICA IDENTITY FULL")
    table.check()
    table.run_sql(
        "ALTER TABLE orders DROP CONSTRAINT orders_pkey", *statements, "ALTER TABLE orders ADD PRIMARY KEY (id)"
    )
    table.assert_refused("no unique index over the key", ChangeFeedGapError)


def test_a_key_that_is_gone_for_some_epochs_is_a_gap(table: Table) -> None:
    """I6: the landing goes on while each epoch is refused."""
    table.run_sql("ALTER TABLE orders REPLICA IDENTITY FULL")
    table.check()
    table.run_sql("ALTER TABLE orders DROP CONSTRAINT orders_pkey")
    table.run_sql("INSERT INTO orders (id, name) VALUES (3, 'second')")
    table.run_sql("DELETE FROM orders WHERE id = 3 AND name = 'name'")
    table.assert_refused("no unique index", InvalidJobError)
    table.run_sql("ALTER TABLE orders ADD PRIMARY KEY (id)")
    table.assert_refused("no unique index over the key", ChangeFeedGapError)


def test_a_key_that_another_index_replaces_is_harmless(table: Table) -> None:
    """The new index was there when the old one was dropped."""
    table.run_sql("ALTER TABLE orders REPLICA IDENTITY FULL")
    table.run_sql("CREATE UNIQUE INDEX CONCURRENTLY another ON orders (id)")
    table.check()
    table.run_sql(
        "ALTER TABLE orders DROP CONSTRAINT orders_pkey, ADD CONSTRAINT orders_pkey PRIMARY KEY USING INDEX another"
    )
    table.run_sql("UPDATE orders SET name = 'x' WHERE id = 1")
    table.check()
