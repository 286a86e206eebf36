"""A topic that is landed once in a Delta table serves several views: rows, upserts, and Debezium's changes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.integration.engine.lakehouse import Lakehouse
from tests.integration.kafka.producers import COMPACTED
from tests.integration.kafka.shop import TopicOfOrders

pytestmark = pytest.mark.spark

FEED = {"delta.enableChangeDataFeed": "true"}
CUSTOMER = "name STRING, city STRING"
LANDED_CUSTOMERS = """
SELECT CAST(key AS STRING) AS customer_id, value.name, value.city, value IS NULL AS deleted, partition, offset
FROM upstream
"""

ENVELOPE = """
op STRING, before STRUCT<id: BIGINT>, after STRUCT<id: BIGINT, amount: STRING>,
source STRUCT<lsn: BIGINT, txId: BIGINT, ts_ms: BIGINT>
"""
LANDED_EVENTS = "SELECT partition, offset, value.op, value.before, value.after, value.source FROM upstream"


class ViewOfLanded(Lakehouse):
    """A view over the view of another job."""

    def __init__(self, spark: SparkSession, folder: Path, landed: TopicOfOrders) -> None:
        folder.mkdir()
        super().__init__(spark, folder)
        self.landed = landed

    def create(self, **fields: Any) -> Any:
        ((kind, upstream),) = fields.pop("upstream").items()
        path = {"path": self.landed.view_path}
        return super().create(upstream={kind: {**path, **upstream}} if kind else {**path, **upstream}, **fields)

    def rows(self) -> list[tuple[Any, ...]]:
        """Return the view's rows."""
        return sorted(tuple(row) for row in self.view().collect())


@pytest.mark.exhaustive
def test_a_compacted_topic_is_a_table_of_upserts_for_several_views(orders: TopicOfOrders, lake: Path) -> None:
    """Each view backfills on its own, and then follows the one landing."""
    # A deletion has to stay until it is landed, however slow the machine is.
    orders.kafka.create_topic(orders.topic, 2, **COMPACTED | {"delete_retention_ms": "3600000"})
    customers: dict[str, tuple[str, str]] = {}

    def say(customer: int, name: str | None, city: str = "Bonn") -> None:
        value = None if name is None else json.dumps({"name": name, "city": city})
        orders.producer.produce(orders.topic, value, key=str(customer), partition=customer % 2)
        assert orders.producer.flush(30) == 0
        customers.pop(str(customer), None)
        if name is not None:
            customers[str(customer)] = (name, city)

    for customer in range(6):
        say(customer, f"name {customer}")
    say(3, None)
    say(4, "newer", "Jena")
    landing = {"value": {"format": "json", "schema": CUSTOMER}}
    orders.create(kafka=landing, query=LANDED_CUSTOMERS, table_properties=FEED, rate_limit=8)
    orders.finish()
    upserts = {"key": ["customer_id"], "ordered_by": ["offset"], "deleted": "deleted", "split": "partition"}
    everyone = ViewOfLanded(orders.spark, lake / "everyone", orders)
    everyone.create(upstream={"upserts": upserts}, query="SELECT customer_id, name, city FROM upstream", rate_limit=3)
    everyone.epoch()
    say(0, None)
    say(3, "again")
    say(9, "new")
    orders.finish()
    in_bonn = ViewOfLanded(orders.spark, lake / "in_bonn", orders)
    in_bonn.create(upstream={"upserts": upserts}, query="SELECT customer_id FROM upstream WHERE city = 'Bonn'")
    history = ViewOfLanded(orders.spark, lake / "history", orders)
    history.create(upstream={"": {"append_only": True}}, query="SELECT customer_id, deleted FROM upstream")
    for view in (everyone, in_bonn, history):
        view.epoch()
    for customer, name in ((9, None), (1, "newest"), (3, None), (10, "last")):
        say(customer, name, "Trier")
    orders.finish()
    for view in (everyone, in_bonn, history):
        view.finish()
        view.assert_truth()
    assert everyone.rows() == sorted((key, *value) for key, value in customers.items())
    assert in_bonn.rows() == sorted((key,) for key, (_, city) in customers.items() if city == "Bonn")
    assert len(history.rows()) == orders.view().count()


@pytest.mark.exhaustive
def test_debezium_events_of_a_topic_are_applied_in_the_order_of_the_database(orders: TopicOfOrders, lake: Path) -> None:
    """A connector that starts again writes events a second time, and tombstones follow deletes."""
    orders.kafka.create_topic(orders.topic)
    events: list[Mapping[str, Any] | None] = [event(lsn, "r", id_=lsn) for lsn in range(1, 7)]
    events += [event(10, "u", id_=2), event(11, "d", id_=3), None, event(12, "c", id_=9)]
    write_events(orders, events)
    orders.create(kafka={"value": {"format": "json", "schema": ENVELOPE}}, query=LANDED_EVENTS, table_properties=FEED)
    orders.finish()
    view = ViewOfLanded(orders.spark, lake / "orders", orders)
    view.create(
        upstream={"debezium": {"key": ["id"]}},
        query="SELECT id, CAST(amount AS DECIMAL(9,2)) AS amount FROM upstream",
        rate_limit=4,
    )
    view.epoch()
    write_events(orders, [*events[-4:], event(13, "u", id_=9), event(14, "d", id_=1), None])
    orders.finish()
    view.finish()
    view.assert_truth()
    assert {id_: int(amount) for id_, amount in view.rows()} == {2: 10, 4: 4, 5: 5, 6: 6, 9: 13}


def event(lsn: int, kind: str, *, id_: int) -> dict[str, Any]:
    """Return an event of a row whose amount is its position in the log."""
    row = {"id": id_, "amount": f"{lsn}.00"}
    return {
        "op": kind,
        "before": {"id": id_} if kind in "ud" else None,
        "after": None if kind == "d" else row,
        "source": {"lsn": lsn, "txId": lsn, "ts_ms": 1_000 * lsn},
        "ts_ms": 1_000 * lsn,
    }


def write_events(orders: TopicOfOrders, events: list[Mapping[str, Any] | None]) -> None:
    for found in events:
        orders.producer.produce(orders.topic, None if found is None else json.dumps(found), key="k")
    assert orders.producer.flush(30) == 0
