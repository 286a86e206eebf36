"""What a plan says about each of several upstreams."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.jobs.planning.plan import make_plan
from airflow_backfill_provider.jobs.planning.plan_text import describe_plan
from tests.several import shape_of_several
from tests.shop import Shop


def test_a_plan_tells_the_size_of_each_table_and_how_long_it_keeps_changes(tmp_path):
    with shape_of_several():
        shop = Shop(tmp_path)
        plan = make_plan(shop.backfill)
    assert {name: (found.rows, found.files, found.leads) for name, found in plan.upstreams.items()} == {
        "orders": (2, 1, True),
        "customers": (2, 1, False),
    }
    facts = dict(describe_plan(plan).facts)
    assert "keeps changes for" in facts["customers"]
    assert "compares" not in facts["customers"]


def test_a_plan_tells_which_table_is_compared(tmp_path):
    plan = make_plan(Shop(tmp_path, strategy="snapshot", unrecorded=("customers",)).backfill)
    assert {name: found.is_compared for name, found in plan.upstreams.items()} == {"orders": False, "customers": True}
    said = dict(describe_plan(plan).facts)["customers"]
    assert "keeps removed files for 7 d 0 h; without change data feed, so an epoch compares its rows" in said


def test_a_plan_tells_for_each_table_what_an_epoch_reads_if_a_part_of_it_changes(tmp_path):
    """Two of three orders name the same customer, which is counted."""
    with shape_of_several():
        shop = Shop(tmp_path)
        shop.order(1.5, 3)
        plan = make_plan(shop.backfill)
    customers = plan.upstreams["customers"]
    assert customers.is_broadcast
    assert not plan.upstreams["orders"].is_broadcast
    assert customers.change is not None
    assert (customers.change.changed, customers.change.touched, customers.change.touched_at_most) == (1, 2, 2)
    assert customers.change.reads == {"orders": 3, "customers": 2}
    facts = dict(describe_plan(plan).facts)
    assert facts["change of customers"].startswith("if 0.1 % (1 row) change, an epoch joins about 2 rows of orders")


def test_a_join_tells_what_a_change_touches(tmp_path):
    """The two orders name one customer each."""
    shop = Shop(tmp_path, strategy="snapshot")
    change = make_plan(shop.backfill).upstreams["customers"].change
    assert change is not None
    assert (change.changed, change.touched, change.touched_at_most) == (1, 1, 1)
    assert change.reads == {"orders": 2, "customers": 2}
    assert change.break_even == 0, "computing two rows costs less than any epoch"


def test_a_union_tells_what_a_change_touches_in_its_branches(tmp_path):
    """Each customer has an order, and leads a branch, too."""
    query = (
        "SELECT o.id, c.name FROM orders AS o JOIN customers AS c ON c.id = o.customer "
        "UNION ALL SELECT id, name FROM customers"
    )
    plan = make_plan(Shop(tmp_path, strategy="snapshot", query=query).backfill)
    orders, customers = plan.upstreams["orders"].change, plan.upstreams["customers"].change
    assert orders is not None
    assert customers is not None
    assert (orders.leads, orders.touched, orders.reads) == (("orders",), 1, {"customers": 2})
    assert (customers.leads, customers.touched) == (("orders", "customers"), 2)
    assert customers.reads == {"orders": 2, "customers": 2}
    said = dict(describe_plan(plan).facts)["change of customers"]
    assert "joins about 2 rows of orders and customers anew" in said


def test_a_view_that_is_computed_whole_reads_all_tables_whatever_changes(tmp_path):
    """No table says what its changes touch, because no epoch reads changes."""
    query = "SELECT o.id, c.name FROM orders AS o FULL JOIN customers AS c ON c.id = o.customer"
    plan = make_plan(Shop(tmp_path, strategy="snapshot", refresh="full", query=query).backfill)
    assert plan.refresh_reads == "all rows of all upstreams, and no changes"
    assert [found.change for found in plan.upstreams.values()] == [None, None]


TOTALS = (
    "SELECT c.name, count(*) AS orders, sum(o.amount) AS total FROM orders AS o JOIN customers AS c "
    "ON c.id = o.customer GROUP BY c.name"
)


@pytest.mark.parametrize(
    ("total", "reads_for_an_order"),
    [("sum(o.amount)", {"customers": 2}), ("percentile(o.amount, 0.5)", {"orders": 2, "customers": 2})],
)
def test_groups_over_a_join_tell_what_a_change_of_each_table_costs(tmp_path, total, reads_for_an_order):
    """A fold reads the joined tables alone if orders change; to compute groups anew, an epoch joins all rows again."""
    query = TOTALS.replace("sum(o.amount)", total)
    found = make_plan(Shop(tmp_path, strategy="snapshot", query=query).backfill).upstreams
    orders, customers = found["orders"].change, found["customers"].change
    assert orders is not None
    assert orders.reads == reads_for_an_order
    assert customers is not None
    assert (customers.changed, customers.touched) == (1, 1)
    assert customers.reads == {"orders": 2, "customers": 2}
    assert "over a join" in customers.cost


def test_groups_over_a_join_that_readers_see_at_once_are_read_group_by_group(tmp_path):
    """Auto takes the only strategy that can, and says why not the other one."""
    plan = make_plan(Shop(tmp_path, strategy="auto", visibility="every_epoch", rate_limit=1, query=TOTALS).backfill)
    assert (plan.strategy, plan.upstreams["customers"].rows) == ("arrangement", 2)
    said = dict(describe_plan(plan).facts)
    assert "visibility: a view of shape joined_groups has on_finish only under strategy snapshot" in said["strategy"]
    assert make_plan(Shop(tmp_path / "other", strategy="auto", query=TOTALS).backfill).strategy == "snapshot"


@pytest.mark.parametrize("fields", [{"strategy": "arrangement"}, {"strategy": "auto", "rate_limit": 1}])
def test_groups_over_a_join_do_not_let_changes_wait_while_they_are_read_one_by_one(tmp_path, fields):
    with pytest.raises(InvalidJobError, match="cannot wait under strategy arrangement; use .* every_epoch"):
        make_plan(Shop(tmp_path, query=TOTALS, **fields).backfill)
