"""The rows of the upstream: orders of a shop that sells in several regions. The same seed makes the same orders."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

REGIONS = {
    "apac": ("AU", "IN", "JP", "SG"),
    "dach": ("AT", "CH", "DE"),
    "latam": ("AR", "BR", "MX"),
    "nam": ("CA", "US"),
    "nordics": ("DK", "FI", "NO", "SE"),
    "uki": ("GB", "IE"),
}
STATUSES = ("open", "paid", "shipped", "returned", "cancelled")
NOTES = (None, None, None, "leave at the door", "gift", "call before delivery — 2. OG", 'fragile: "glass"', "")
Integers = np.ndarray[Any, np.dtype[np.int64]]
Flags = np.ndarray[Any, np.dtype[np.bool_]]

KEY = ("region", "order_id")

FIRST_ORDER = dt.datetime(2025, 1, 1, tzinfo=dt.UTC)
PARTS_PER_REGION = 4

CUSTOMERS = 250_000
"""Orders name customers by the numbers below this one."""

SCHEMA = pa.schema(
    [
        pa.field("region", pa.string(), nullable=False),
        pa.field("order_id", pa.int64(), nullable=False),
        pa.field("customer_id", pa.int64()),
        pa.field("country", pa.string()),
        pa.field("amount", pa.decimal128(12, 2)),
        pa.field("discount", pa.float64()),
        pa.field("status", pa.string()),
        pa.field("express", pa.bool_()),
        pa.field("items", pa.int16()),
        pa.field("receipt", pa.binary()),
        pa.field("due_on", pa.date32()),
        pa.field("ordered_at", pa.timestamp("us", "UTC")),
        pa.field("updated_at", pa.timestamp("us", "UTC")),
        pa.field("notes", pa.string()),
    ]
)


def first_orders(rows: int, seed: int = 7) -> Iterator[pa.Table]:
    """Generate the orders that the table begins with, part by part in the order of the key (region, order_id)."""
    random = np.random.default_rng(seed)
    shares = dict(zip(sorted(REGIONS), (0.22, 0.18, 0.12, 0.26, 0.08, 0.14), strict=True))
    for region, share in shares.items():
        for ids in np.array_split(order_ids(round(rows * share)), PARTS_PER_REGION):
            yield make_orders(region, ids, random)


def make_orders(region: str, order_ids: Integers, random: np.random.Generator) -> pa.Table:
    """Generate orders of one region."""
    count = len(order_ids)
    minutes = np.asarray(order_ids, dtype=np.int64) // 3 % 500_000
    ordered = np.datetime64(FIRST_ORDER.replace(tzinfo=None), "us") + minutes.astype("timedelta64[m]")
    cents = np.round(np.exp(random.normal(8.2, 1.1, count))).astype(np.int64) + 99
    receipts = random.bytes(8 * count)
    columns = {
        "region": pa.array([region]).take(pa.array(np.zeros(count, dtype=np.int32))),
        "order_id": order_ids,
        "customer_id": random.zipf(1.3, count) % CUSTOMERS,
        "country": pa.array(REGIONS[region]).take(pa.array(random.integers(len(REGIONS[region]), size=count))),
        "amount": _decimals(cents),
        "discount": pa.array(np.round(random.random(count) * 0.4, 3), mask=_some(count, 0.6, random)),
        "status": pa.array(STATUSES).take(pa.array(random.choice(len(STATUSES), count, p=[0.2, 0.3, 0.4, 0.06, 0.04]))),
        "express": pa.array(_some(count, 0.15, random), mask=_some(count, 0.02, random)),
        "items": random.integers(1, 12, count).astype(np.int16),
        "receipt": pa.FixedSizeBinaryArray.from_buffers(pa.binary(8), count, [None, pa.py_buffer(receipts)]),
        "due_on": (ordered + np.timedelta64(14, "D")).astype("datetime64[D]"),
        "ordered_at": ordered,
        "updated_at": ordered + random.integers(0, 5 * 86_400 * 1_000_000, count).astype("timedelta64[us]"),
        "notes": pa.array(NOTES).take(pa.array(random.integers(len(NOTES), size=count))),
    }
    arrays = [_as(columns[field.name], field.type) for field in SCHEMA]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def order_ids(count: int) -> Integers:
    """Return the ids of a region's first orders: every third number, so that later orders fit in between."""
    return np.arange(1, count + 1, dtype=np.int64) * 3


def _some(count: int, share: float, random: np.random.Generator) -> Flags:
    return random.random(count) < share


def _decimals(cents: Integers) -> pa.Array:
    # A decimal is a 16-byte integer: the cents as its lower half, zeros as its upper one.
    halves = np.zeros((len(cents), 2), dtype=np.int64)
    halves[:, 0] = cents
    return pa.Array.from_buffers(pa.decimal128(12, 2), len(cents), [None, pa.py_buffer(halves.tobytes())])


def _as(column: object, kind: pa.DataType) -> pa.Array:
    array = column if isinstance(column, pa.Array) else pa.array(column)
    if pa.types.is_timestamp(kind) and array.type.tz is None:
        return array.cast(pa.timestamp("us")).cast(kind)
    return array.cast(kind)
