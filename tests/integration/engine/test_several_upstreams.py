"""
A view over two Delta tables that both keep changing, of a shape that only the tests have.

Each version of it has the query's rows over both tables as of one instant (I1), whichever of them changed, and wherever
an attempt died.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from airflow_backfill_provider.core.epoch import crash_points
from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.epoch.crash_points import CrashPoint
from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.core.job.sql import quote
from airflow_backfill_provider.jobs import creation
from tests.dying import dies_at
from tests.integration.engine.lakehouse import Lakehouse
from tests.integration.engine.quick_changes import is_changed
from tests.several import LOOKUP, shape_of_several, star
from tests.variants import exhaustive

pytestmark = pytest.mark.spark


class Shop(Lakehouse):
    """Orders and their customers."""

    @property
    def customers_name(self) -> str:
        """The customers' name in SQL."""
        return f"delta.{quote(f'{self.folder}/customers')}"

    def customers(self, statement: str) -> None:
        """Run a statement; ``{customers}`` stands for their table."""
        location = f"{self.folder}/customers"
        if statement.startswith("CREATE") or not is_changed(statement.replace("{customers}", "changed"), location):
            self.spark.sql(statement.replace("{customers}", self.customers_name))

    def define_names(self, **fields: object) -> None:
        """Define the view of orders with the names of their customers."""
        self.job = BackfillJob(
            **star(
                materialized_view=self.view_path,
                upstreams={
                    "orders": {"path": self.upstream_path, "key": ["id"]},
                    "customers": {"path": f"{self.folder}/customers", "key": ["id"]},
                },
                **fields,
            )
        )

    def start(self) -> None:
        """Create the job."""
        self.start_job(creation.create_job, self.backfill)

    def assert_names(self) -> None:
        """Compare the view with the query over both tables as they are now."""
        self.assert_equals_query(
            LOOKUP.replace("FROM orders", "FROM {upstream}").replace("JOIN customers", f"JOIN {self.customers_name}")
        )

    def pin(self) -> Barrier:
        """Pin the next barrier."""
        barrier = self.inject()
        assert barrier is not None
        return barrier


@pytest.fixture
def shop(lakehouse: Lakehouse) -> Iterator[Shop]:
    made = Shop(lakehouse.spark, lakehouse.folder)
    made.make_upstream("id BIGINT, customer BIGINT, amount INT")
    made.sql("INSERT INTO {upstream} SELECT id, IF(id % 7 = 0, NULL, id % 5), 1 FROM range(40)")
    made.customers(
        "CREATE TABLE {customers} (id BIGINT, name STRING) USING delta "
        "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
    )
    made.customers("INSERT INTO {customers} SELECT id, concat('c', id) FROM range(4)")
    with shape_of_several():
        try:
            yield made
        finally:
            crash_points.install(None)


@pytest.mark.parametrize("strategy", [exhaustive("no_shuffle"), "snapshot"])
def test_a_view_over_two_tables_follows_both_through_crashes(shop: Shop, strategy: str) -> None:
    """I1 and I2: only the dimension changes, both do, and an attempt dies after the commit of the view."""
    shop.define_names(strategy=strategy, rate_limit=25)
    shop.start()
    shop.epoch()
    shop.assert_truth()
    shop.customers("UPDATE {customers} SET name = 'renamed' WHERE id = 1")
    shop.finish()
    shop.assert_names()

    shop.customers("DELETE FROM {customers} WHERE id = 2")
    shop.customers("INSERT INTO {customers} VALUES (4, 'new')")
    barrier = shop.pin()
    assert not barrier.upstream.is_wide, "only the dimension changed"
    assert list(barrier.changed_others) == ["customers"]
    with dies_at(CrashPoint.AFTER_CHANGES_COMMIT):
        shop.run(barrier)
    assert shop.run(barrier).upstream_output_row_count == 2, "two customers changed"
    shop.assert_names()

    shop.change("UPDATE {upstream} SET customer = 3 WHERE id = 8")
    shop.change("DELETE FROM {upstream} WHERE id = 9")
    shop.customers("UPDATE {customers} SET id = 2 WHERE id = 3")
    shop.epoch()
    shop.assert_names()
    shop.assert_truth()
    assert shop.epoch() is None
    status = shop.backfill.status()
    assert status.finished
    assert {name: found.lag_versions for name, found in status.upstreams.items()} == {"orders": 0, "customers": 0}


@pytest.mark.exhaustive
def test_a_wrong_name_is_found_by_a_verification(shop: Shop) -> None:
    """A verification reads each table at its own pinned offset."""
    shop.define_names()
    shop.start()
    shop.finish()
    shop.customers("UPDATE {customers} SET name = 'later'")
    shop.assert_truth()
    shop.sql("UPDATE {view} SET name = 'wrong' WHERE id = 8")
    with pytest.raises(AssertionError, match="8"):
        shop.assert_truth()
