"""
Random joins over tables that change at random: after every epoch the view has the rows that SQLite gives.

SQLite knows nothing of epochs, of Spark, or of which rows a change affects.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import pytest

from airflow_backfill_provider.core.epoch import crash_points
from airflow_backfill_provider.core.epoch.crash_points import CrashPoint
from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.jobs import creation
from airflow_backfill_provider.shapes.joined.query import check_joined_query
from airflow_backfill_provider.shapes.joined.relations import Relation
from airflow_backfill_provider.shapes.joined.resolved import ResolvedQuery, resolve
from tests.integration.engine.grouped_orders import DiedError, die_at
from tests.integration.engine.star_shop import StarShop
from tests.joined_worlds import COLUMNS, RELATIONS, Row, Tables, Writer, bindings, changed, name_of, run, tables

pytestmark = [pytest.mark.spark, pytest.mark.exhaustive]

WINDOWS = 4
STRATEGIES = ({"strategy": "snapshot"}, {"strategy": "no_shuffle"}, {"strategy": "arrangement", "parallelism": 2})
POINTS = (CrashPoint.BEFORE_CHANGES_COMMIT, CrashPoint.AFTER_CHANGES_COMMIT, CrashPoint.AFTER_STATE_COMMIT)


class World(StarShop):
    """The tables of a random history, and a view over them."""

    def make(self, relations: Iterable[Relation], rows: Tables) -> None:
        """Create the tables."""
        for relation in relations:
            columns = ", ".join(f"{name} BIGINT{' NOT NULL' if name in relation.key else ''}" for name in COLUMNS)
            self.change_by_spark(
                f"CREATE TABLE {{{relation.name}}} ({columns}) USING delta "
                "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
            )
            self.insert(relation.name, rows[relation.name])

    def insert(self, name: str, rows: Iterable[Row]) -> None:
        """Insert rows, if there are any."""
        if values := ", ".join(map(_values, rows)):
            self.change_by_spark(f"INSERT INTO {{{name}}} VALUES {values}")

    def move(self, rng: random.Random, relation: Relation, before: Iterable[Row], after: Iterable[Row]) -> None:
        """Change a table by deletes, inserts and updates, some of them with a detour."""
        old, new = ({_key(relation, row): row for row in rows} for rows in (before, after))
        updated = {key for key in old.keys() & new.keys() if old[key] != new[key] and rng.random() < 0.6}
        for key in old:
            if key not in updated and old[key] != new.get(key):
                self.change_by_spark(f"DELETE FROM {{{relation.name}}} WHERE {_where(relation, key)}")
        for key in updated:
            if rng.random() < 0.3:
                self.change_by_spark(_update(relation, key, tuple(value or 0 for value in old[key])))
            self.change_by_spark(_update(relation, key, new[key]))
        self.insert(relation.name, [new[key] for key in new if key not in updated and old.get(key) != new[key]])

    def start_over(self, query: str, relations: Iterable[Relation], **fields: Any) -> None:
        """Create the job."""
        upstreams = {found.name: {"path": f"{self.folder}/{found.name}", "key": list(found.key)} for found in relations}
        self.job = BackfillJob(
            name="history", upstreams=upstreams, materialized_view=self.view_path, query=query, vnode_count=3, **fields
        )
        self.start_job(creation.create_job, self.backfill)

    def assert_rows(self, query: ResolvedQuery, rows: Tables) -> None:
        """Compare the view with what SQLite gives."""
        expected = run(query, bindings(query, rows), query.render(name_of))
        names = self.view().columns
        assert not expected or sorted(expected[0]) == sorted(names)
        found = Counter(tuple(row) for row in self.view().collect())
        assert found == Counter(tuple(row[name] for name in names) for row in expected), self.job


@pytest.mark.parametrize("seed", range(10))
def test_a_view_has_the_rows_of_another_engine_after_every_epoch(lakehouse, seed: int) -> None:
    """I1 and I2: lookups, fan-outs, self-joins, chains, semi and anti joins; attempts die now and then."""
    rng = random.Random(seed)
    rows = tables(rng)
    text = Writer(rng, joins=3).query()
    read = {name.lower() for name in check_joined_query(text).relations}
    relations = [relation for relation in RELATIONS if relation.name in read]
    query = resolve(check_joined_query(text), relations)
    world = World(lakehouse.spark, lakehouse.folder)
    world.make(relations, rows)
    world.start_over(text, relations, **rng.choice(STRATEGIES), rate_limit=rng.choice([None, 2]))
    if rng.random() < 0.5:
        world.epoch()
    for _ in range(WINDOWS):
        after = changed(rng, rows)
        for relation in relations:
            world.move(rng, relation, rows[relation.name], after[relation.name])
        rows = after
        if rng.random() < 0.4:
            crash_points.install(die_at(rng.choice(POINTS)))
            with suppress(DiedError):
                world.finish()
            crash_points.install(None)
        world.finish()
        world.assert_rows(query, rows)
    world.assert_truth()


def _values(row: Row) -> str:
    return f"({', '.join(map(_literal, row))})"


def _literal(value: int | None) -> str:
    return "NULL" if value is None else str(value)


def _key(relation: Relation, row: Row) -> Row:
    return tuple(row[COLUMNS.index(name)] for name in relation.key)


def _where(relation: Relation, key: Row) -> str:
    return " AND ".join(f"{name} = {value}" for name, value in zip(relation.key, key, strict=True))


def _update(relation: Relation, key: Row, row: Row) -> str:
    values = {name: value for name, value in zip(COLUMNS, row, strict=True) if name not in relation.key}
    assigned = ", ".join(f"{name} = {_literal(value)}" for name, value in values.items())
    return f"UPDATE {{{relation.name}}} SET {assigned} WHERE {_where(relation, key)}"
