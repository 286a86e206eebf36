"""What a plan says about each of several upstreams, in words."""

from __future__ import annotations

from airflow_backfill_provider.core.refresh import Refresh
from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.jobs.planning.planned_changes import PlannedChange
from airflow_backfill_provider.jobs.planning.planned_upstreams import PlannedUpstream
from airflow_backfill_provider.jobs.planning.upstream_text import change_facts, upstream_facts


def upstream(name, rows, change=None, **fields):
    known = {"leads": False, "files": 1, "bytes": 1024, "kept_hours": 168.0, **fields}
    return PlannedUpstream(
        location=f"/lake/{name}", version=Offset(3), offset_name="version", rows=rows, change=change, **known
    )


def change(changed, touched, reads, break_even, most=None, leads=("orders",)):
    return PlannedChange(
        changed=changed, leads=leads, touched=touched, touched_at_most=most, reads=reads, break_even=break_even
    )


def test_sizes_and_what_spark_sends_to_every_executor():
    found = {
        "orders": upstream("orders", 20_000, leads=True),
        "customers": upstream("customers", 10, kept_hours=None, is_broadcast=True),
    }
    assert list(upstream_facts(found)) == [
        ("orders", "leads; 20,000 rows, 1.0 KiB in 1 file as of version 3, keeps changes for 7 d 0 h"),
        (
            "customers",
            "10 rows, 1.0 KiB in 1 file as of version 3; so small that Spark sends it to every executor by default",
        ),
    ]


def test_a_change_of_each():
    found = {
        "orders": upstream("orders", 20_000, change(20, 20, {"customers": 2_000}, 900, most=20), leads=True),
        "customers": upstream("customers", 2_000, change(2, 20, {"orders": 20_000, "customers": 2_000}, 90, most=50)),
        "countries": upstream("countries", 20, change(1, 1_000, {}, None)),
        "shops": upstream("shops", 20, change(1, 1, {}, 0)),
        "unknown": upstream("unknown", 20),
    }
    assert list(change_facts(found, Refresh.INCREMENTAL)) == [
        (
            "change of orders",
            "if 0.1 % (20 rows) change, an epoch joins these anew, and reads all of customers (2,000 rows); by the "
            "benchmark, a rebuild costs less from about 900 rows on",
        ),
        (
            "change of customers",
            "if 0.1 % (2 rows) change, an epoch joins about 20 rows of orders anew, or 50 if they name the most "
            "frequent values, and reads all of orders (20,000 rows) and customers (2,000 rows); by the benchmark, a "
            "rebuild costs less from about 90 rows on",
        ),
        (
            "change of countries",
            "if 0.1 % (1 row) change, an epoch joins about 1,000 rows of orders anew; by the benchmark, that costs "
            "less than a rebuild even if all rows change",
        ),
        (
            "change of shops",
            "if 0.1 % (1 row) change, an epoch joins about 1 row of orders anew; by the benchmark, computing the whole "
            "view always costs less for so few rows",
        ),
    ]
    assert [said.rpartition("; by the benchmark, ")[2] for _, said in change_facts(found, Refresh.AUTO)] == [
        "computing the whole view, which the epoch then does, costs less from about 900 rows on",
        "computing the whole view, which the epoch then does, costs less from about 90 rows on",
        "that costs less than computing the whole view even if all rows change",
        "computing the whole view always costs less for so few rows",
    ]


def test_what_groups_over_a_join_cost_is_an_estimate():
    folded = change(20, 20, {"customers": 2_000}, 900).model_copy(update={"cost": "fold over a join"})
    ((_, said),) = change_facts({"orders": upstream("orders", 20_000, folded, leads=True)}, Refresh.INCREMENTAL)
    assert said.endswith("; by an estimate, a rebuild costs less from about 900 rows on")


def test_the_leads_of_a_union_are_named_whose_rows_are_joined_anew():
    found = {
        "berlin": upstream("berlin", 20_000, change(20, 20, {}, 900, leads=("berlin",)), leads=True),
        "customers": upstream("customers", 20, change(1, 9, {"berlin": 20_000}, 90, leads=("berlin", "paris"))),
    }
    said = dict(change_facts(found, Refresh.INCREMENTAL))
    assert "an epoch joins these anew; by" in said["change of berlin"]
    assert "joins about 9 rows of berlin and paris anew, and reads all of berlin" in said["change of customers"]
