"""
A shape that only this file defines and registers goes through a whole backfill.

Its view has a row for each group of the upstream's rows: the number of rows in it. A unit is a group, so a chunk is no
append and a change touches the groups of both of its images. So no code outside of the shapes' folder may assume that
the view's rows are the upstream's.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import pytest
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from airflow_backfill_provider.core.epoch import crash_points
from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.epoch.crash_points import CrashPoint
from airflow_backfill_provider.core.epoch.settings import JobSettings
from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.job.visibility import Visibility
from airflow_backfill_provider.core.scan.keys import KeyField, KeyOrder
from airflow_backfill_provider.core.scan.table_version import TableVersions
from airflow_backfill_provider.jobs.verification import verifier
from airflow_backfill_provider.lake.tables.view_identity import ViewIdentity
from airflow_backfill_provider.shapes import KINDS
from airflow_backfill_provider.shapes.base import Shape, ViewWriter, WriterContext
from airflow_backfill_provider.shapes.changes import Changes
from airflow_backfill_provider.shapes.queries import ShapedQuery, Units
from airflow_backfill_provider.sources.shared.by_key import column, with_keys
from airflow_backfill_provider.spark.stamps import CHANGES, REPAIR, snapshot_part
from tests.integration.engine.lakehouse import Lakehouse
from tests.variants import exhaustive

pytestmark = pytest.mark.spark

_COUNT = re.compile(
    r"SELECT (?P<group>\w+), (count\(\*\)|sum\((?P<summed>\w+)\)) AS (?P<rows>\w+) FROM upstream GROUP BY (?P=group)"
)


@dataclass(frozen=True)
class CountQuery(ShapedQuery):
    """The number of rows of each group, or the sum of a column."""

    text: str
    group: str
    rows: str
    summed: str | None

    def columns_of(self, available: Sequence[str]) -> tuple[str, ...]:
        return tuple(name for name in available if name in {self.group, self.summed})

    def inexact(self, columns: Sequence[str]) -> frozenset[str]:
        return frozenset({self.rows}) if self.summed else frozenset()

    def old_columns(self, available: Sequence[str]) -> tuple[str, ...]:
        return (self.group,)

    def render(self, relation: str, key: Sequence[str], upstream_names: Collection[str]) -> str:
        return self.text.replace("FROM upstream", f"FROM {relation}")

    def units(self, settings: JobSettings, *, by_key: bool) -> Units:
        order = KeyOrder((KeyField(name=self.group, type=settings.types[self.group]),))
        return Units(order=order, outputs=(self.group,), hashed=(self.group,), hashed_outputs=(self.group,))

    def holds_distribution_key(self, settings: JobSettings) -> bool:
        return True


class Count(Shape):
    """A row of the view for a group of rows."""

    name: ClassVar[str] = "count"
    only_visibility: ClassVar[Visibility | None] = Visibility.EVERY_EPOCH  # groups are of rows as of one offset

    def query(self, text: str) -> CountQuery:
        found = _COUNT.fullmatch(text)
        if found is None:
            raise InvalidJobError("query: it does not count the rows of groups")
        return CountQuery(text, found["group"], found["rows"], found["summed"])

    def writer(self, context: WriterContext) -> ViewWriter:
        return CountWriter(context, self.query(context.job.query))


class CountWriter(ViewWriter):
    """Counts the groups that an epoch touches again."""

    def __init__(self, context: WriterContext, query: CountQuery) -> None:
        self._context = context
        self._query = query

    def schema(self) -> StructType:
        return self._context.run(self._context.job_rows.empty()).schema

    def write_changes(
        self,
        changes: Changes,
        identity: ViewIdentity,
        barrier: Barrier,
        *,
        repairs: bool,
        since: TableVersions | None,
    ) -> None:
        self._replace(self._touched(changes), barrier, CHANGES, identity, with_chunk=False)

    def write_part(
        self, rows: DataFrame, part: int, identity: ViewIdentity, barrier: Barrier, *, since: TableVersions | None
    ) -> None:
        self._replace(self._groups(rows), barrier, snapshot_part(part), identity, with_chunk=True)

    def repair(
        self, changes: Changes | None, identity: ViewIdentity, barrier: Barrier, *, since: TableVersions | None
    ) -> None:
        rows, view = self._context.read_set(barrier, with_chunk=False), self._context.view.table.read()
        touched = self._groups(rows).unionAll(self._groups(view))
        if changes is not None:
            touched = touched.unionAll(self._touched(changes))
        self._replace(touched, barrier, REPAIR, identity, with_chunk=False)

    def _touched(self, changes: Changes) -> DataFrame:
        """A change touches the groups of both of its images."""
        return self._groups(self._context.new(changes)).unionAll(self._groups(self._context.old(changes)))

    def _groups(self, rows: DataFrame) -> DataFrame:
        return rows.select(column(self._query.group))

    def _replace(
        self, touched: DataFrame, barrier: Barrier, part: str, identity: ViewIdentity, *, with_chunk: bool
    ) -> None:
        """Count some groups again, over all rows that the view consists of."""
        group = self._query.group
        rows = with_keys(self._context.read_set(barrier, with_chunk=with_chunk), touched, [group])
        self._context.view.replace_units(self._context.run(rows), touched, [group], part, identity, barrier)


class DiedError(Exception):
    """An attempt died."""


@pytest.fixture
def orders(lakehouse: Lakehouse) -> Iterator[Lakehouse]:
    KINDS.register(Count(), before="group")
    try:
        lakehouse.make_upstream("id BIGINT, customer STRING, amount INT")
        lakehouse.sql("INSERT INTO {upstream} SELECT id, concat('c', id % 5), 1 FROM range(40)")
        yield lakehouse
    finally:
        crash_points.install(None)
        KINDS.forget(Count.name)


@pytest.mark.exhaustive
@pytest.mark.parametrize("strategy", [exhaustive("no_shuffle"), "arrangement"])
def test_a_shape_from_outside_survives_crashes_and_ends_with_the_query_of_its_upstream(
    orders: Lakehouse, strategy: str
) -> None:
    """I1 and I2, where groups are cut by chunks, and grow, shrink, move and vanish."""
    query = "SELECT customer, count(*) AS orders FROM upstream GROUP BY customer"
    orders.create(query=query, strategy=strategy, rate_limit=13)
    orders.epoch()
    orders.assert_truth()
    orders.sql("DELETE FROM {upstream} WHERE customer = 'c1'")
    orders.sql("UPDATE {upstream} SET customer = 'c2' WHERE id = 3 OR id = 38")
    orders.sql("UPDATE {upstream} SET amount = 2 WHERE id = 4")
    orders.sql("INSERT INTO {upstream} VALUES (-1, 'new', 1), (-2, NULL, 1), (90, 'c0', 1)")
    orders.sql("UPDATE {upstream} SET id = 95 WHERE id = 0")
    for point in (
        CrashPoint.BEFORE_CHANGES_COMMIT,
        CrashPoint.AFTER_CHANGES_COMMIT,
        CrashPoint.AFTER_SNAPSHOT_COMMIT,
        CrashPoint.AFTER_STATE_COMMIT,
    ):

        def die(reached: CrashPoint, point: CrashPoint = point) -> None:
            if reached is point:
                raise DiedError

        crash_points.install(die)
        with pytest.raises(DiedError):
            orders.epoch()
    crash_points.install(None)
    orders.epoch()
    orders.assert_truth()
    orders.finish()
    orders.assert_truth()
    orders.assert_equals_query("SELECT customer, count(*) AS orders FROM {upstream} GROUP BY customer")
    orders.sql("DELETE FROM {upstream} WHERE customer = 'new'")
    orders.epoch()
    orders.assert_equals_query("SELECT customer, count(*) AS orders FROM {upstream} GROUP BY customer")


@pytest.mark.exhaustive
def test_parts_merge_into_the_view_each_under_its_own_transaction(orders: Lakehouse) -> None:
    """I2 and I5: the parts are written at the same time, by threads of one session."""
    query = "SELECT id, count(*) AS orders FROM upstream GROUP BY id"
    orders.create(query=query, strategy="arrangement", parallelism=3)
    orders.finish()
    orders.assert_equals_query("SELECT id, count(*) AS orders FROM {upstream} GROUP BY id")


@pytest.mark.exhaustive
def test_a_wrong_group_is_found_by_a_verification(orders: Lakehouse) -> None:
    orders.create(query="SELECT customer, count(*) AS orders FROM upstream GROUP BY customer")
    orders.finish()
    orders.sql("UPDATE {view} SET orders = 3 WHERE customer = 'c3'")
    with pytest.raises(AssertionError, match="c3"):
        orders.assert_truth()


def test_a_sum_of_floats_is_equal_up_to_its_last_digits(orders: Lakehouse) -> None:
    """Two runs of the query add in another order, so an exact comparison would report it again and again."""
    orders.sql("ALTER TABLE {upstream} ADD COLUMN price DOUBLE")
    orders.sql("UPDATE {upstream} SET price = IF(customer = 'c4', NULL, id / 10)")
    orders.create(query="SELECT customer, sum(price) AS total FROM upstream GROUP BY customer")
    orders.finish()
    orders.sql("UPDATE {view} SET total = total * (1 + 1e-12)")
    orders.assert_truth()
    orders.sql("UPDATE {view} SET total = total * (1 + 1e-8) WHERE customer = 'c2'")
    orders.sql("UPDATE {view} SET total = DOUBLE('infinity') WHERE customer = 'c3'")
    orders.sql("UPDATE {view} SET total = 0 WHERE customer = 'c4'")
    found = verifier.compare_now(orders.backfill, orders.engine)
    assert {key.key: key.columns for key in found.keys} == {(name,): ("total",) for name in ("c2", "c3", "c4")}


def test_a_query_that_no_shape_takes_is_refused_as_the_first_shape_says(lakehouse: Lakehouse) -> None:
    with pytest.raises(InvalidJobError, match="must be row-level"):
        lakehouse.define(query="SELECT id, explode(tags) AS tag FROM upstream")
