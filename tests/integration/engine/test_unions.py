"""Views that unite tables which all keep changing: each version is the query over all of them as of one instant (I1)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from airflow_backfill_provider.core.epoch import crash_points
from tests.integration.engine.lakehouse import Lakehouse
from tests.integration.engine.shops import ALL_SALES, Shops

pytestmark = pytest.mark.spark


@pytest.fixture
def shops(lakehouse: Lakehouse) -> Iterator[Shops]:
    yield Shops(lakehouse.spark, lakehouse.folder)
    crash_points.install(None)


def test_the_history_of_each_branch_is_read_in_chunks(shops: Shops) -> None:
    """I1 and I4: chunks of one table and of two, while both change; then changes of both in one window."""
    shops.make("berlin", "paris")
    shops.define_sales(rate_limit=8)
    shops.start()
    for _ in range(3):
        shops.epoch()
        shops.assert_truth()
        shops.change("UPDATE {paris} SET amount = amount - 1 WHERE id % 5 = 0", "DELETE FROM {berlin} WHERE id = 3")
    commits = shops.finish()
    assert [commit.rows_read for commit in commits][-1] == 40
    shops.assert_united()
    shops.change("UPDATE {paris} SET amount = 1 WHERE id = 1", "INSERT INTO {berlin} VALUES (1000, NULL, 1)")
    shops.change("DELETE FROM {paris} WHERE id IN (2, 1000)", "UPDATE {berlin} SET id = 1 WHERE id = 1001")
    shops.epoch()
    shops.assert_united()
    assert shops.epoch() is None


def test_branches_may_be_joins_and_share_tables(shops: Shops) -> None:
    """I1: keys of two types; a table in two branches has one window; a change of what a branch is joined with."""
    shops.make("berlin", "online", "customers")
    shops.define_sales(ALL_SALES)
    shops.start()
    shops.finish()
    shops.assert_united()
    assert {"__branch", "__key_0", "__key_1"} <= set(shops.view().columns)
    shops.change(
        "UPDATE {customers} SET name = 'renamed' WHERE id = 1",
        "DELETE FROM {customers} WHERE id = 2",
        "UPDATE {berlin} SET amount = 6 WHERE id = 1",
        "DELETE FROM {online} WHERE code = 'o3'",
        "INSERT INTO {online} VALUES ('o300', NULL, 3)",
    )
    shops.epoch()
    shops.assert_united()
    shops.change("UPDATE {customers} SET id = 2 WHERE id = 3")
    shops.epoch()
    shops.assert_united()
