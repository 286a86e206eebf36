"""The lines of a status about each of several upstreams."""

from __future__ import annotations

from airflow_backfill_provider.cli.upstream_lines import lag_of_all, lag_of_lead, upstream_lines
from tests.several import shape_of_several
from tests.shop import Shop, minute


def test_each_table_has_a_line_with_its_instant_and_its_lag(tmp_path):
    with shape_of_several():
        shop = Shop(tmp_path)
        shop.create()
        shop.epoch()
        shop.customer(3, 3)
        status = shop.backfill.status(lambda: minute(4))
    lines = dict(upstream_lines(status))
    assert lines["orders"] == "view at version 0 of 2026-03-29 01:30:00 UTC, newest is 0, leads"
    assert lines["customers"].startswith(
        "view at version 0 of 2026-03-29 01:31:00 UTC, newest is 1; lag 1 version, 1 min"
    )
    assert "headroom" in lines["customers"]
    assert list(upstream_lines(status.model_copy(update={"upstreams": {}}))) == []


def test_the_lag_is_that_of_the_table_which_the_view_is_furthest_behind(tmp_path):
    with shape_of_several():
        shop = Shop(tmp_path)
        shop.create()
        shop.epoch()
        assert lag_of_all(shop.backfill.status(lambda: minute(2))) == "0 versions"
        shop.customer(3, 3)
        status = shop.backfill.status(lambda: minute(4))
        assert lag_of_lead(status) == "0 versions"
        assert lag_of_all(status) == "1 version, 1 min 0 s (customers)"
        shop.order(6, 3)
        shop.order(6.5, 4)
        status = shop.backfill.status(lambda: minute(7))
    assert lag_of_lead(status) == "2 versions, 1 min 0 s"
    assert lag_of_all(status) == "1 version, 4 min 0 s (customers)"
    assert lag_of_all(status.model_copy(update={"upstreams": {}, "furthest_behind": ""})) == lag_of_lead(status)
