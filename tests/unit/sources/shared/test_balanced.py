"""Conditions of many terms fit a message to a Spark Connect server. Columns of its client need no server."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from google.protobuf.message import Message
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from airflow_backfill_provider.core.scan.keys import KeyOrder, KeyRange
from airflow_backfill_provider.core.scan.splits import SplitRange
from airflow_backfill_provider.sources.shared.appended_rows import is_among
from airflow_backfill_provider.sources.shared.balanced import all_of, any_of, sum_of
from airflow_backfill_provider.spark.predicates import after, at_or_before, in_any
from tests.builders import order_of

MOST_LEVELS = 40
"""A message may have a hundred; the plan around a condition needs some, too."""


@pytest.fixture(autouse=True)
def _as_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")


def levels(column: Column) -> int:
    """Return the levels of a column's message."""
    return _levels(column.to_plan(None))


def _levels(message: Message) -> int:
    within = [
        part
        for field, value in message.ListFields()
        if field.message_type is not None
        for part in (value if isinstance(value, Sequence) or hasattr(value, "__len__") else [value])
        if isinstance(part, Message)
    ]
    return 1 + max(map(_levels, within), default=0)


def many_columns(count: int) -> tuple[KeyOrder, tuple[int, ...]]:
    return order_of(*["long"] * count), tuple(range(count))


def test_many_terms_make_few_levels():
    numbers = [F.lit(number) for number in range(1000)]
    assert levels(sum_of(numbers)) < MOST_LEVELS
    conditions = [number == 1 for number in numbers]
    assert levels(any_of(conditions)) < MOST_LEVELS
    assert levels(all_of(conditions)) < MOST_LEVELS


def test_no_terms_are_neutral():
    assert [str(found) for found in (any_of([]), all_of([]))] == [str(F.lit(False)), str(F.lit(True))]


def test_keys_of_many_columns_and_many_ranges_make_few_levels():
    order, position = many_columns(60)
    assert levels(after(order, position)) < MOST_LEVELS
    assert levels(at_or_before(order, position)) < MOST_LEVELS
    single, _ = many_columns(1)
    ranges = [KeyRange((number,), (number + 1,)) for number in range(0, 1000, 2)]
    assert levels(in_any(single, ranges)) < MOST_LEVELS


def test_many_files_that_are_gone_make_few_levels():
    ranges = [SplitRange(number % 8, number, number + 1) for number in range(1000)]
    assert levels(is_among(("split", "place"), ranges)) < MOST_LEVELS
