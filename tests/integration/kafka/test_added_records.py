"""Groups of a topic's records: added once each, whatever the topic removes afterwards."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.errors import ChangeFeedGapError
from airflow_backfill_provider.jobs.verification import verifier
from tests.integration.kafka.producers import COMPACTED
from tests.integration.kafka.shop import TopicOfOrders

pytestmark = pytest.mark.spark

QUERY = "SELECT value.shop AS shop, count(*) AS n, sum(value.amount) AS total FROM upstream GROUP BY value.shop"
FORMAT = {"value": {"format": "json", "schema": "shop STRING, amount INT"}}


def add(orders: TopicOfOrders, *amounts: int, partition: int = 0) -> None:
    orders.add(*({"shop": f"s{amount % 2}", "amount": amount} for amount in amounts), partition=partition)


def groups(orders: TopicOfOrders) -> dict[str, tuple[int, int]]:
    return {row["shop"]: (row["n"], row["total"]) for row in orders.view().select("shop", "n", "total").collect()}


def test_removed_records_stay_counted_and_cannot_be_compared(orders: TopicOfOrders) -> None:
    """I1 and I6: several partitions, chunks that cut them, and retention that passes what was read."""
    orders.kafka.create_topic(orders.topic, partitions=2)
    add(orders, 1, 2, 3, 4, 5)
    add(orders, 6, 8, 10, partition=1)
    settings = orders.create(kafka=FORMAT, query=QUERY, rate_limit=5)
    assert (settings.strategy, bool(settings.state_columns)) == ("source", True)
    orders.epoch()
    orders.assert_truth()
    orders.finish()
    add(orders, 7, partition=1)
    orders.kafka.delete_records(orders.topic, 2)
    orders.finish()
    assert groups(orders) == {"s0": (5, 30), "s1": (4, 16)}
    with pytest.raises(ChangeFeedGapError, match=r"offsets 0 to 1 of partition 0 are gone.*counts these rows"):
        verifier.compare_now(orders.backfill, orders.engine)


@pytest.mark.exhaustive
def test_groups_of_a_compacted_topic_are_never_compared(orders: TopicOfOrders) -> None:
    """I6: nobody can tell which records it has removed."""
    orders.kafka.create_topic(orders.topic, **COMPACTED)
    orders.producer.produce(orders.topic, '{"shop": "s0", "amount": 2}', key="a")
    assert orders.producer.flush(30) == 0
    orders.create(kafka=FORMAT, query=QUERY)
    orders.finish()
    assert groups(orders) == {"s0": (1, 2)}
    with pytest.raises(ChangeFeedGapError, match="the topic is compacted"):
        verifier.compare_now(orders.backfill, orders.engine)
