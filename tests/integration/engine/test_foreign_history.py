"""Tables with a foreign history: restored from copies, or written to by others, on real Spark and Delta."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from airflow_backfill_provider.core.errors import DuplicateKeyError, MaterializedViewError, StateError
from airflow_backfill_provider.core.job.sql import quote
from airflow_backfill_provider.jobs import mutations
from airflow_backfill_provider.lake.tables.view_identity import FINISHED_PROPERTY, ViewIdentity, view_properties
from airflow_backfill_provider.spark.view import MaterializedView
from airflow_backfill_provider.strategies.arrangement.location import location_of
from tests.builders import restore_copy
from tests.integration.engine.lakehouse import Lakehouse
from tests.variants import exhaustive

pytestmark = pytest.mark.spark


@pytest.fixture
def orders(lakehouse: Lakehouse) -> Lakehouse:
    """Thirty orders of seven customers, in the order of their keys."""
    lakehouse.make_upstream("id BIGINT, customer INT, name STRING")
    lakehouse.sql("INSERT INTO {upstream} SELECT id, CAST(id % 7 AS INT), concat('n', id) FROM range(30)")
    return lakehouse


def arrange_by_customer(orders: Lakehouse, **fields: object) -> None:
    """Create a job whose vnodes come from another column than the key."""
    upstream = {"path": orders.upstream_path, "key": ["id"], "distribution_key": ["customer"]}
    orders.create(**{"upstream": upstream, "strategy": "arrangement", "rate_limit": 8, **fields})


@pytest.mark.exhaustive
def test_an_older_copy_of_the_view_that_was_written_on_is_refused(orders: Lakehouse, tmp_path: Path) -> None:
    """I6: it has as many versions as the job left, all of them stamped or harmless, and rows are missing."""
    orders.create(rate_limit=10)
    orders.epoch()
    copy = tmp_path / "copy"
    shutil.copytree(orders.view_path, copy)
    orders.epoch()
    restore_copy(copy, orders.view_path)
    for number in range(3):
        orders.sql(f"ALTER TABLE {{view}} SET TBLPROPERTIES ('number' = '{number}')")
    with pytest.raises(MaterializedViewError, match="restored from an older copy and written since: rebuild the job"):
        orders.epoch()


def test_an_arrangement_that_something_else_wrote_to_is_refused(orders: Lakehouse) -> None:
    """I6: chunks are read from it, so the view would never get the rows that it lacks."""
    arrange_by_customer(orders)
    orders.epoch()
    arrangement = location_of(orders.backfill.settings())
    orders.spark.sql(f"DELETE FROM delta.{quote(arrangement)} WHERE id % 2 = 0")
    with pytest.raises(StateError, match=r"arrangement: version \d+ of .* \(DELETE\) was not written by .*: rebuild"):
        orders.epoch()
    orders.rebuild(**orders.backfill.job.model_dump(mode="json"))
    orders.finish()
    orders.assert_truth()


@pytest.mark.exhaustive
def test_an_older_copy_of_the_arrangement_is_refused(orders: Lakehouse, tmp_path: Path) -> None:
    """I6: without the newest changes of rows that are not read yet."""
    arrange_by_customer(orders)
    orders.epoch()
    arrangement, copy = location_of(orders.backfill.settings()), tmp_path / "copy"
    shutil.copytree(arrangement, copy)
    orders.sql("UPDATE {upstream} SET name = 'changed'")
    orders.epoch()
    restore_copy(copy, arrangement)
    with pytest.raises(StateError, match=r"arrangement: .* is at version \d+, but epoch 2 left it at version \d+"):
        orders.epoch()


@pytest.mark.parametrize("read", [exhaustive(True), False], ids=["read", "not read yet"])
def test_one_key_in_two_vnodes_is_refused_whether_the_first_is_read_or_not(orders: Lakehouse, read: bool) -> None:
    """I6: each vnode has its own position, and the chunk of the second one would be appended to the view."""
    arrange_by_customer(orders, vnode_count=2, rate_limit=4)
    orders.epoch()
    orders.view().createOrReplaceTempView("read_rows")
    there = "SELECT id FROM read_rows"
    # Each customer's orders lie in one vnode, and those of some customer in the other one.
    orders.sql(
        f"""INSERT INTO {{upstream}}
            SELECT o.id, c.customer, 'again' FROM {{upstream}} o CROSS JOIN {{upstream}} c
            WHERE pmod(hash(o.customer), 2) <> pmod(hash(c.customer), 2) AND o.id {"IN" if read else "NOT IN"} ({there})
            ORDER BY o.id, c.id LIMIT 1"""
    )
    with pytest.raises(DuplicateKeyError, match="several rows with the same key"):
        orders.epoch()
    assert orders.view().count() == orders.view().select("id").distinct().count()


@pytest.mark.exhaustive
def test_a_foreign_row_does_not_prevent_its_own_repair(orders: Lakehouse) -> None:
    """The upstream inserts the key afterwards; with the foreign row in the view the merge would call it a duplicate."""
    orders.create()
    orders.finish()
    orders.sql("INSERT INTO {view} VALUES (100, 1, 'stray')")
    orders.sql("INSERT INTO {upstream} VALUES (100, 2, 'true'), (101, 2, 'true')")
    with pytest.raises(MaterializedViewError, match="was not written by job"):
        orders.epoch()
    mutations.repair_job(store=orders.backfill.store, requested_by="tester", keys=["100"])
    orders.finish()
    orders.assert_truth()
    orders.assert_equals_query("SELECT * FROM {upstream}")


@pytest.mark.exhaustive
def test_a_repair_still_refuses_a_key_that_the_upstream_has_twice(orders: Lakehouse) -> None:
    """I6: the rows of the key in the view prove nothing then, so the upstream is checked."""
    orders.create()
    orders.finish()
    orders.sql("INSERT INTO {upstream} VALUES (3, 2, 'again')")
    mutations.repair_job(store=orders.backfill.store, requested_by="tester", vnodes=["0-3"])
    with pytest.raises(DuplicateKeyError, match="several rows with the same key"):
        orders.epoch()


@pytest.mark.exhaustive
def test_an_attempt_that_slept_through_a_rebuild_does_not_mark_its_view_as_finished(
    orders: Lakehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I5: it checked the identity of the view, slept through the rebuild, and continues."""
    identity = ViewIdentity.of(orders.create())

    def slept(view: MaterializedView, properties: dict[str, str], identity: ViewIdentity, epoch: int) -> None:
        monkeypatch.undo()
        orders.rebuild(rate_limit=10)
        orders.epoch()
        view._set_properties(properties, identity, epoch)

    monkeypatch.setattr(MaterializedView, "_set_properties", slept)
    MaterializedView(orders.spark.newSession(), orders.view_path).mark_finished(identity, 1)
    assert says_finished(orders) == "false"
    orders.finish()
    assert says_finished(orders) == "true"
    orders.assert_truth()


def says_finished(orders: Lakehouse) -> str:
    return (view_properties(orders.view_path, orders.storage_options) or {})[FINISHED_PROPERTY]
