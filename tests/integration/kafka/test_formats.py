"""Records become columns; what cannot be read fails the epoch, or becomes a dead letter."""

from __future__ import annotations

import json
import struct
import time
from pathlib import Path

import pytest

from airflow_backfill_provider.core.epoch.settings import JobSettings
from airflow_backfill_provider.core.errors import (
    RegistryRefusedError,
    RegistryUnavailableError,
    UnsupportedValueError,
)
from airflow_backfill_provider.strategies.source.location import dead_letters_of
from tests.integration.kafka.shop import TopicOfOrders
from tests.ports import free_port
from tests.protobuf_schemas import class_of, field, file_of, message, set_of
from tests.schema_registry import NO_SCHEMA, registry_server

pytestmark = pytest.mark.spark

JSON = {"format": "json", "schema": "order_id BIGINT, amount DECIMAL(12,2)"}
QUERY = "SELECT partition, offset, value.order_id, value.amount FROM upstream"
ORDER = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "order_id", "type": "long"}]})


def test_json_becomes_columns_and_tombstones_are_null(orders: TopicOfOrders) -> None:
    orders.kafka.create_topic(orders.topic)
    orders.add({"order_id": 1, "amount": 10.25}, {"order_id": 2**62, "amount": None}, {"amount": 1, "more": [1]})
    orders.producer.produce(orders.topic, None, key=b"2", partition=0)
    orders.producer.flush(30)
    orders.create(kafka={"value": JSON}, query=QUERY)
    orders.finish()
    rows = [(order, None if amount is None else str(amount)) for _, _, order, amount in orders.rows()]
    assert rows == [(1, "10.25"), (2**62, None), (None, "1.00"), (None, None)]


@pytest.mark.exhaustive
def test_a_record_that_cannot_be_read_fails_the_epoch(orders: TopicOfOrders) -> None:
    """I6: it is named, and its content is not quoted."""
    orders.kafka.create_topic(orders.topic)
    orders.add({"order_id": 1}, '{"order_id": "secret"}')
    orders.create(kafka={"value": JSON}, query=QUERY)
    with pytest.raises(UnsupportedValueError, match="partition 0, offset 1: the value .*dead_letter") as failed:
        orders.epoch()
    assert "secret" not in str(failed.value)
    assert orders.rows() == []


@pytest.mark.exhaustive
@pytest.mark.parametrize("parallelism", [1, 2])
def test_records_that_cannot_be_read_become_dead_letters(orders: TopicOfOrders, parallelism: int) -> None:
    orders.kafka.create_topic(orders.topic, 3)
    orders.add({"order_id": 1}, "no json", {"order_id": 2}, "[]", {"order_id": 3})
    orders.add({"order_id": 4}, "{", partition=2)
    settings = orders.create(
        kafka={"value": JSON, "unreadable_records": "dead_letter"}, query=QUERY, rate_limit=4, parallelism=parallelism
    )
    orders.epoch()
    orders.add("late", partition=1)
    orders.finish()
    orders.add("later", {"order_id": 5}, partition=1)
    orders.finish()
    assert [order for _, _, order, _ in orders.rows()] == [1, 2, 3, 5, 4]
    letters = orders.spark.read.format("delta").load(dead_letters_of(settings)).filter("epoch > 0")
    found = sorted((row.partition, row.offset, bytes(row.value).decode()) for row in letters.collect())
    assert found == [(0, 1, "no json"), (0, 3, "[]"), (1, 0, "late"), (1, 1, "later"), (2, 1, "{")]
    assert all(row.reason.startswith("the value ") for row in letters.collect())
    orders.assert_truth()


@pytest.mark.exhaustive
def test_a_message_of_protobuf_becomes_columns(orders: TopicOfOrders, tmp_path: Path) -> None:
    descriptors = set_of(file_of(message("Order", field("order_id", "int64"), field("amount", "double"))))
    (tmp_path / "shop.desc").write_bytes(descriptors)
    make = class_of(descriptors, "shop.Order")
    orders.kafka.create_topic(orders.topic)
    for record in (make(order_id=1, amount=0.5).SerializeToString(), None, b"\xff"):
        orders.producer.produce(orders.topic, record, partition=0)
    orders.producer.flush(30)
    format_ = {"format": "protobuf", "descriptor_file": str(tmp_path / "shop.desc"), "message": "shop.Order"}
    orders.create(kafka={"value": format_, "unreadable_records": "dead_letter"}, query=QUERY)
    orders.finish()
    assert orders.rows() == [(0, 0, 1, 0.5), (0, 1, None, None)]


def create_with_registry(orders: TopicOfOrders, folder: Path, *framed: tuple[int, bytes]) -> JobSettings:
    """
    Write records in Avro, and create a job over them, which must not ask for their schemas yet.

    :param framed: for each record the id of its schema, and its value as Avro writes it.
    """
    (folder / "order.avsc").write_text(ORDER, encoding="utf-8")
    orders.kafka.create_topic(orders.topic)
    for schema_id, value in framed:
        orders.producer.produce(orders.topic, struct.pack(">bI", 0, schema_id) + value, partition=0)
    assert orders.producer.flush(30) == 0
    format_ = {"format": "avro", "registry": "schemas", "schema_file": str(folder / "order.avsc")}
    return orders.create(
        kafka={"value": format_, "unreadable_records": "dead_letter"},
        query="SELECT partition, offset, value.order_id FROM upstream",
    )


def connection_to(port: int) -> str:
    return json.dumps({"conn_type": "http", "host": "127.0.0.1", "port": port})


@pytest.mark.exhaustive
def test_a_registry_that_does_not_answer_makes_no_record_a_dead_letter(
    orders: TopicOfOrders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I6: only an id that the registry says it lacks makes a record unreadable."""
    monkeypatch.setenv("AIRFLOW_CONN_SCHEMAS", connection_to(free_port()))
    settings = create_with_registry(orders, tmp_path, (1, b"\x02"), (2, b"\x04"), (1, b"\x06"))
    letters = orders.spark.read.format("delta").load(dead_letters_of(settings)).filter("epoch > 0")
    with pytest.raises(RegistryUnavailableError, match="nothing is lost, try again"):
        orders.epoch()
    with registry_server() as registry:
        monkeypatch.setenv("AIRFLOW_CONN_SCHEMAS", connection_to(registry.server_port))
        registry.answer("/schemas/ids/1", (200, {"schema": ORDER}))
        registry.answer("/schemas/ids/2", (404, {"error_code": 404, "message": "HTTP 404 Not Found"}))
        with pytest.raises(RegistryRefusedError, match="check the connection's host, port and path"):
            orders.epoch()
        assert (orders.rows(), letters.count()) == ([], 0)
        registry.answer("/schemas/ids/2", NO_SCHEMA)
        orders.finish()
        assert [order for _, _, order in orders.rows()] == [1, 3]
        assert [(row.offset, row.reason) for row in letters.collect()] == [(1, "the value schema 2 is unknown")]
        orders.assert_truth()


@pytest.mark.exhaustive
def test_a_schema_that_was_found_for_the_dead_letters_is_known_for_the_view(
    orders: TopicOfOrders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I1: an epoch decodes its records twice, and another server of the registry may not have the schema yet."""
    with registry_server() as registry:
        monkeypatch.setenv("AIRFLOW_CONN_SCHEMAS", connection_to(registry.server_port))
        registry.answer("/schemas/ids/1", (200, {"schema": ORDER}), NO_SCHEMA)
        create_with_registry(orders, tmp_path, (1, b"\x02"))
        orders.finish()
    assert [order for _, _, order in orders.rows()] == [1]


@pytest.mark.exhaustive
def test_keys_and_headers_are_columns(orders: TopicOfOrders) -> None:
    orders.kafka.create_topic(orders.topic)
    producer = orders.kafka.producer()
    # The broker soon removes what is older than a week.
    written_at = int(time.time() * 1000) - 3_600_123
    producer.produce(orders.topic, b"\x00\xff", key="one", headers=[("trace", b"7")], timestamp=written_at)
    producer.flush(30)
    orders.create(
        kafka={"record_key": {"format": "text"}},
        query="SELECT partition, offset, key, hex(value) AS value, headers[0].key AS header, unix_millis(timestamp) at "
        "FROM upstream",
    )
    orders.finish()
    assert orders.rows() == [(0, 0, "one", "00FF", "trace", written_at)]
