"""
Order parity: Python, Arrow and the predicates of an epoch compare keys of every type as Spark sorts them.

A case is a type of key, ascending or descending, or a composite of several, with tens of thousands of random keys,
including the edges of the type.
"""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from itertools import pairwise

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from airflow_backfill_provider.core.scan.keys import KeyField, KeyOrder, Position
from airflow_backfill_provider.lake.files.key_index import arrow_type, in_key_order
from airflow_backfill_provider.spark.predicates import after, at_or_before
from faults.campaign import Campaign, Outcome, Play, WrongError
from faults.spark import spark_session

KEYS = 50_000
PIVOTS = 12

_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - a local time
_ALPHABET = "aAbzZ09 _-'\"`\\%\x00\t\x7fäéßİı\u0301\u200b中\uffff\ufffd🙂\U0010ffff"


def _integers(bits: int) -> Callable[[random.Random], int]:
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    return lambda random: random.choice([low, high, -1, 0, 1, random.randint(low, high), random.randint(-99, 99)])


def _string(random: random.Random) -> str:
    if random.random() < 0.3:
        # Delta's statistics keep only 32 characters.
        return "x" * 32 + "".join(random.choice(_ALPHABET) for _ in range(random.randint(0, 4)))
    return "".join(random.choice(_ALPHABET) for _ in range(random.randint(0, 12)))


def _binary(random: random.Random) -> bytes:
    return random.randbytes(random.randint(0, 6)) if random.random() < 0.9 else b"\x00" * random.randint(0, 40)


def _decimals(precision: int, scale: int) -> Callable[[random.Random], Decimal]:
    largest = 10**precision - 1

    def value(random: random.Random) -> Decimal:
        unscaled = random.choice([0, 1, -1, largest, -largest, random.randint(-largest, largest)])
        digits = tuple(int(digit) for digit in str(abs(unscaled)))
        return Decimal((int(unscaled < 0), digits, -scale))

    return value


def _date(random: random.Random) -> dt.date:
    return dt.date.fromordinal(random.choice([1, dt.date.max.toordinal(), 719_163, random.randint(1, 3_652_059)]))


def _local(random: random.Random) -> dt.datetime:
    # Close together, so that many differ below the millisecond that statistics are rounded to.
    if random.random() < 0.7:
        return _EPOCH + dt.timedelta(days=20_000, microseconds=random.randint(-5_000, 5_000))
    return _EPOCH + dt.timedelta(microseconds=random.randint(-(10**16), 10**16))


def _instant(random: random.Random) -> dt.datetime:
    return _local(random).replace(tzinfo=dt.UTC)


VALUES: dict[str, Callable[[random.Random], object]] = {
    "byte": _integers(8),
    "short": _integers(16),
    "integer": _integers(32),
    "long": _integers(64),
    "string": _string,
    "binary": _binary,
    "boolean": lambda random: random.random() < 0.5,
    "date": _date,
    "timestamp": _instant,
    "timestamp_ntz": _local,
    "decimal(9,2)": _decimals(9, 2),
    "decimal(18,0)": _decimals(18, 0),
    "decimal(38,10)": _decimals(38, 10),
}

COMPOSITES = (
    (("string", False), ("long", True)),
    (("boolean", True), ("timestamp", False), ("binary", False)),
    (("decimal(9,2)", False), ("string", True)),
    (("date", True), ("byte", False)),
)

ORDERS = (
    *(((kind, descending),) for kind in VALUES for descending in (False, True)),
    *COMPOSITES,
)


def _keys(order: KeyOrder, random: random.Random, count: int) -> list[Position]:
    def value(field: KeyField) -> object:
        return None if random.random() < 0.02 else VALUES[field.type](random)

    return [tuple(value(field) for field in order.fields) for _ in range(count)]  # type: ignore[misc]


def _table(order: KeyOrder, keys: list[Position]) -> pa.Table:
    columns = {
        field.name: pa.array([key[index] for key in keys], arrow_type(field))
        for index, field in enumerate(order.fields)
    }
    return pa.table({**columns, "number": pa.array(range(len(keys)), pa.int64())})


def compare_orders(spark: SparkSession, order: KeyOrder, random: random.Random) -> int:
    """Compare the orders of random keys, and return the number of comparisons."""
    keys = _keys(order, random, KEYS)
    table = _table(order, keys)
    rows = spark.createDataFrame(table).cache()
    try:
        sort = [
            F.col(field.name).desc_nulls_first() if field.descending else F.col(field.name).asc_nulls_first()
            for field in order.fields
        ]
        sorted_by_spark = [keys[row["number"]] for row in rows.orderBy(*sort).select("number").collect()]
        checks = _python_agrees(order, keys, sorted_by_spark)
        found = in_key_order(table, order).to_pylist()
        for key, row in zip(sorted_by_spark, found, strict=True):
            other = tuple(row[name] for name in order.names)
            if order.compare(key, other):
                raise WrongError(f"{order}: Arrow has {other} where Spark has {key}")
        for _ in range(PIVOTS):
            checks += _predicates_agree(order, rows, keys, random.choice(keys)[: random.randint(1, len(order.fields))])
        return checks + len(keys)
    finally:
        rows.unpersist()


def _python_agrees(order: KeyOrder, keys: list[Position], sorted_by_spark: list[Position]) -> int:
    by_python = sorted(keys, key=order.sort_key)
    for mine, theirs in zip(by_python, sorted_by_spark, strict=True):
        if order.compare(mine, theirs) or order.sort_key(mine) != order.sort_key(theirs):
            raise WrongError(f"{order}: Python has {mine} where Spark has {theirs}")
    for left, right in pairwise(sorted_by_spark):
        if order.compare(left, right) > 0 or order.compare(right, left) < 0:
            raise WrongError(f"{order}: Spark has {left} before {right}")
        encoded = order.encode(left)
        if order.decode(encoded) != left:
            raise WrongError(f"{order}: {left} is encoded as {encoded}")
    return 2 * len(keys)


def _predicates_agree(order: KeyOrder, rows: DataFrame, keys: list[Position], pivot: Position) -> int:
    counted = rows.agg(
        F.count_if(after(order, pivot)).alias("after"), F.count_if(at_or_before(order, pivot)).alias("up_to")
    ).collect()[0]
    wanted = sum(order.compare(key, pivot) > 0 for key in keys)
    if (counted["after"], counted["up_to"]) != (wanted, len(keys) - wanted):
        raise WrongError(f"{order}: after {pivot} are {counted} in Spark, and {wanted} in Python")
    return len(keys)


@contextmanager
def _stage() -> Iterator[Play]:
    with spark_session() as spark:

        def play(case: int, random: random.Random) -> Outcome:
            columns = ORDERS[case % len(ORDERS)]
            order = KeyOrder(
                tuple(
                    KeyField(name=f"k{i}", type=kind, descending=descending)
                    for i, (kind, descending) in enumerate(columns)
                )
            )
            return Outcome(checks=compare_orders(spark, order, random), about=str(columns))

        yield play


CAMPAIGN = Campaign(
    name="key-order",
    about="50,000 random keys of each type: Python, Arrow and the epochs' conditions order them as Spark does",
    quick=len(ORDERS),
    full=4 * len(ORDERS),
    checks="comparisons",
    stage=_stage,
)
