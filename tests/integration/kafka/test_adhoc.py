from __future__ import annotations
import pytest
from airflow_backfill_provider.protocol import mutations
from tests.integration.kafka.producers import COMPACTED
from tests.integration.kafka.shop import TopicOfOrders
from tests.integration.kafka.test_outages import soon_compacted
pytestmark = pytest.mark.spark
def test_repair(orders: TopicOfOrders) -> None:
    orders.kafka.create_topic(orders.topic, **COMPACTED)
    for number in range(9):
        orders.producer.produce(orders.topic, str(number), key="same")
        assert orders.producer.flush(30) == 0
    orders.create()
    orders.finish()
    n = len(orders.rows())
    soon_compacted(orders)
    before = orders.rows()
    mutations.repair_job(store=orders.backfill.store, vnodes=["0-15"], requested_by="tester")
    orders.finish()
    print("ROWS", n, len(before), len(orders.rows()), [r for r in before if r not in orders.rows()])
    orders.assert_truth()
