"""The records of the demo's topic: changes of orders, as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
from confluent_kafka import Producer

from demo.orders import REGIONS, make_orders

TOPIC = "orders"
PARTITIONS = 4
SCHEMA = "region STRING, order_id BIGINT, customer_id BIGINT, amount DECIMAL(12,2), status STRING, updated_at TIMESTAMP"

_FIELDS = ["region", "order_id", "customer_id", "amount", "status", "updated_at"]


def records(count: int, random: np.random.Generator, first: int = 0) -> Iterator[tuple[int, str]]:
    """
    Make records.

    :param first: the number of the first order.
    :returns: the partition and the record of each.
    """
    numbers = np.arange(first, first + count, dtype=np.int64)
    for place, region in enumerate(sorted(REGIONS)):
        chosen = numbers[numbers % len(REGIONS) == place]
        for order in _orders(region, chosen, random).to_pylist():
            # A decimal is written as a number, digit by digit.
            amount = order.pop("amount")
            order["updated_at"] = order["updated_at"].isoformat()
            yield order["order_id"] % PARTITIONS, f'{json.dumps(order)[:-1]}, "amount": {amount}}}'


def write_all(producer: Producer, topic: str, found: Iterable[tuple[int, str]]) -> None:
    """Write records, each to its partition, however many they are, and wait until they are there."""
    for partition, record in found:
        while True:
            try:
                producer.produce(topic, record, partition=partition)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    producer.flush()


def _orders(region: str, numbers: np.ndarray[tuple[int], np.dtype[np.int64]], random: np.random.Generator) -> pa.Table:
    return make_orders(region, numbers, random).select(_FIELDS)
