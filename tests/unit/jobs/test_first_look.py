"""The upstreams of a job that is about to be created, as of one instant."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.clock import utc_now
from airflow_backfill_provider.core.errors import InvalidJobError, UpstreamError
from airflow_backfill_provider.jobs.first_look import look, require_kept
from airflow_backfill_provider.sources.delta.source import DeltaSource
from airflow_backfill_provider.strategies import KINDS
from airflow_backfill_provider.strategies.choice import StrategyChoice
from airflow_backfill_provider.strategies.cost import CostEstimate
from tests.several import shape_of_several
from tests.shop import Shop, minute


@pytest.fixture
def shop(tmp_path):
    with shape_of_several():
        yield Shop(tmp_path)


def test_all_tables_are_seen_as_of_the_clocks_instant(shop):
    shop.order(5, 3)
    seen = look(shop.job, shop.backfill.upstream, None, lambda: minute(4))
    assert {name: found.described.offset.number for name, found in seen.several.items()} == {
        "orders": 0,
        "customers": 0,
    }
    assert list(seen.others) == ["customers"]


def test_a_table_without_a_commit_as_old_as_the_clock_is_refused(shop):
    with pytest.raises(UpstreamError, match="upstreams.customers: by the times of its commits"):
        look(shop.job, shop.backfill.upstream, None, lambda: minute(0.5))


def test_a_topic_is_refused_with_what_to_do(shop, monkeypatch):
    """A change of a customer must find the orders again, and nothing finds records of a topic by a column."""
    lead = shop.backfill.upstream
    monkeypatch.setattr(type(lead), "splits", property(lambda _: object()))
    with pytest.raises(InvalidJobError, match=r"upstreams.orders: .* cannot be read again .* make a view of its rows"):
        look(shop.job, lead, None, utc_now)


def test_a_dimension_that_may_be_emptied_without_changes_is_refused(shop, monkeypatch):
    """Such as Debezium's events: nothing would tell which orders lose their customer."""
    monkeypatch.setattr(DeltaSource, "may_be_cleared", property(lambda source: "customers" in source.location))
    with pytest.raises(InvalidJobError, match=r"upstreams.customers: all rows of .* may be removed at once"):
        look(shop.job, shop.backfill.upstream, None, lambda: minute(4))
    monkeypatch.setattr(DeltaSource, "may_be_cleared", property(lambda source: "orders" in source.location))
    assert look(shop.job, shop.backfill.upstream, None, lambda: minute(4)).others


@pytest.mark.parametrize("strategy", ["snapshot", "no_shuffle"])
def test_changes_must_be_kept_until_history_is_read_if_they_wait_until_then(shop, strategy):
    seen = look(shop.job, shop.backfill.upstream, None, lambda: minute(4))
    slow = CostEstimate(rows=1, bytes=1, epochs=1, spark_runs=1, hours=24 * 365)
    choice = StrategyChoice(KINDS.named(strategy), "", {strategy: slow})
    if strategy == "no_shuffle":
        require_kept(seen.others, choice)
    else:
        with pytest.raises(InvalidJobError, match="upstreams.customers: the backfill takes about .* keeps changes for"):
            require_kept(seen.others, choice)
    require_kept(seen.others, StrategyChoice(KINDS.named(strategy), "", {}))
