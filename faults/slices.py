"""
Queries of groups that are cut into slices: some groups computed anew are the same groups of the whole query.

A case has an upstream before and after some changes, and queries from the grammar of the campaign ``groups``. Of each
query, Spark computes the view before and after, the units that the changes touch, and the slice of these. The view
before, with the touched units replaced by the slice, must be the view after. No table is written and no epoch is run,
so there are many more queries than in ``groups``.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from airflow_backfill_provider.shapes.group.query import GroupQuery, check_group_query
from airflow_backfill_provider.spark.session import prepare_session
from faults.campaign import Campaign, Outcome, Play, WrongError
from faults.groups.queries import a_query
from faults.groups.rows import GroupedRows
from faults.groups.tables import Table, a_table, an_upstream, names_of
from faults.groups.truth import Row, differences
from faults.shapes.case import Case
from faults.shapes.rows import Change
from faults.shapes.truth import PINNED, values_of
from faults.shapes.writers import frame
from faults.spark import spark_session

QUERIES = 10
"""The queries of a case."""

BEFORE, AFTER, OLD, NEW, TOUCHED = "rows_before", "rows_after", "old_images", "new_images", "touched_units"


class Slicing:
    """
    One upstream before and after a change.

    :param spark: a session with the settings that a job promises.
    :param upstream: the upstream.
    :param change: the change.
    """

    def __init__(self, spark: SparkSession, upstream: Case, change: Change) -> None:
        self._spark = spark
        self._names = frozenset(column.name for column in upstream.columns)
        images = ([one for one in side if one is not None] for side in zip(*change.pairs, strict=True))
        old, new = images if change.pairs else ((), ())
        for name, rows in ((BEFORE, change.before), (AFTER, change.after), (OLD, old), (NEW, new)):
            frame(spark, upstream.columns, rows).createOrReplaceTempView(name)

    def require_same(self, query: GroupQuery) -> bool:
        """
        Compare a query's view, whose touched units are replaced, with the whole query.

        :returns: whether Spark computes the query over these rows.
        :raises WrongError: if they differ.
        """
        try:
            before, after = (
                values_of(self._spark.sql(query.render(name, (), self._names))) for name in (BEFORE, AFTER)
            )
        except PySparkException:
            return False
        names = [f"touched_{number}" for number in range(len(query.units_with(self._names).terms))]
        units = " UNION ".join(query.render_units(images, names, self._names) for images in (OLD, NEW))
        touched = self._spark.sql(units)
        touched.createOrReplaceTempView(TOUCHED)
        fresh = values_of(self._spark.sql(query.render_slice(AFTER, TOUCHED, names, self._names)))
        places = self._places(query)
        gone = {repr(unit) for unit in values_of(touched)}
        stays = [row for row in before if repr(_unit(row, places)) not in gone]
        missing, more = differences(after, [*stays, *fresh])
        if missing or more:
            raise WrongError(f"missing {missing[:2]!a}, unexpected {more[:2]!a}, of {len(after)}: {query.text!a}")
        return True

    def _places(self, query: GroupQuery) -> list[int]:
        """Return where the columns of a unit are in the view."""
        columns = self._spark.sql(query.render(BEFORE, (), self._names)).columns
        held = [name.lower() for name in columns]
        return [held.index(name.lower()) for name in query.units_with(self._names).outputs]


def _unit(row: Row, places: Sequence[int]) -> Row:
    return tuple(row[place] for place in places)


def play(spark: SparkSession, random: random.Random) -> Outcome:
    """Play a case."""
    table = a_table(random)
    upstream = an_upstream(random, table)
    rows = GroupedRows(upstream, table)
    slicing = Slicing(spark, upstream, _changed(random, rows, rows.begin(upstream.rows)))
    queries = [query for query in _queries(random, table) if not query.is_global]
    computed = sum(map(slicing.require_same, queries))
    return Outcome(
        checks=computed, about=f"{len(queries) - computed} queries fail on these rows | {names_of(table.columns)}"
    )


def _changed(random: random.Random, rows: GroupedRows, before: tuple[Row, ...]) -> Change:
    return rows.change(random.choice(("column", "column", "mixture", "append", "delete", "update", "empty")), before)


def _queries(random: random.Random, table: Table) -> Iterator[GroupQuery]:
    for _ in range(QUERIES):
        yield check_group_query(a_query(random, table))


@contextmanager
def _stage() -> Iterator[Play]:
    with spark_session() as spark:
        session = prepare_session(spark)
        for name, value in PINNED.items():
            session.conf.set(name, value)
        yield lambda _, random: play(session, random)


CAMPAIGN = Campaign(
    name="slices",
    about="queries of groups cut into slices: the touched groups, computed anew, are those of the whole query",
    quick=50,
    full=1_000,
    checks="queries",
    stage=_stage,
)
