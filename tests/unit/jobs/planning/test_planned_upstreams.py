"""What a plan says about each of several upstreams."""

from __future__ import annotations

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
