"""Conditions on keys in Spark mean what the same ranges mean in Python."""

from __future__ import annotations

import random
from itertools import pairwise

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_backfill_provider.core.scan.keys import KeyField, KeyOrder, KeyRange
from airflow_backfill_provider.spark.predicates import value_of, within

pytestmark = pytest.mark.spark

ORDERS = [
    KeyOrder((KeyField(name="a", type="long", descending=False),)),
    KeyOrder(
        (KeyField(name="a", type="integer", descending=False), KeyField(name="b", type="string", descending=True))
    ),
]
TEXTS = [None, "", "a", "ab", "b", "é", "\U00010000"]


def keys_of(order, seed):
    """Return distinct keys, nulls among them."""
    drawn = random.Random(seed)
    numbers = [None, *range(-6, 7)]
    columns = [TEXTS if field.type == "string" else numbers for field in order.fields]
    return list({tuple(drawn.choice(values) for values in columns) for _ in range(60)})


def ranges_of(order, keys, seed):
    """Return ranges that do not overlap, with gaps between some, and with ends that are shorter than the key."""
    drawn = random.Random(seed)
    ends = []
    for key in sorted(drawn.sample(keys, min(len(keys), 12)), key=order.sort_key):
        cut = key[: drawn.randint(1, len(key))]
        # A short end lies after all keys that begin with it, so it may lie after the next one.
        if not ends or order.compare(cut, ends[-1]) > 0:
            ends.append(cut)
    found = [KeyRange(after, up_to) for after, up_to in pairwise([None, *ends, None])]
    return [covered for covered in found if drawn.random() < 0.8]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("order", ORDERS, ids=lambda order: "-".join(order.names))
def test_a_key_gets_the_value_of_its_range(spark, order, seed):
    keys = keys_of(order, seed)
    ranges = ranges_of(order, keys, seed)
    random.Random(seed).shuffle(ranges)
    values = {covered: number for number, covered in enumerate(ranges)}
    schema = ", ".join(f"{field.name} {'bigint' if field.type == 'long' else field.type}" for field in order.fields)
    found = spark.createDataFrame(keys, schema).select("*", value_of(order, values).alias("value")).collect()
    assert len(found) == len(keys)
    for row in found:
        *key, value = row
        holding = [number for covered, number in values.items() if covered.contains(tuple(key), order)]
        assert holding == ([] if value is None else [value])


def test_no_ranges_give_no_value(spark):
    (row,) = spark.range(1).select(value_of(ORDERS[0], {}).alias("value")).collect()
    assert row["value"] is None


def test_a_range_after_one_without_an_end_is_refused(spark):
    with pytest.raises(ValueError, match="no end"):
        value_of(ORDERS[0], {KeyRange((1,), None): 1, KeyRange((2,), (3,)): 2})


def test_statistics_in_files_of_a_field_are_not_those_of_a_column_of_its_path(spark, tmp_path):
    """Spark and Parquet mix up the column `a.b` and the field b of the column a."""
    structs = pa.array([{"b": n % 4} for n in range(30)])
    pq.write_table(pa.table({"a.b": pa.array(range(30), pa.int64()), "a": structs}), tmp_path / "0.parquet")
    order = KeyOrder((KeyField(name="a.b", type="long"),))
    rows = spark.read.parquet(str(tmp_path))
    for start in range(0, 25, 4):
        assert rows.filter(within(order, KeyRange((start,), (start + 5,)))).count() == 5
