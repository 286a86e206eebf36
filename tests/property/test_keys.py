"""Keys of every type: their order is total, and what is written down is read back."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from functools import cmp_to_key

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from airflow_backfill_provider.core.epoch.barrier import PinnedRange
from airflow_backfill_provider.core.scan.keys import KeyField, KeyOrder
from tests.builders import in_order, order_of
from tests.strategies import KEY_VALUES, key_columns, keys


@st.composite
def orders_and_keys(draw, *, size):
    """Draw a key order and some keys of it, in which whole prefixes are often equal."""
    columns = draw(key_columns())
    order = KeyOrder(tuple(KeyField(name=c.name, type=c.type, descending=c.descending) for c in columns))
    pool = draw(st.lists(keys(columns), min_size=1, max_size=4))
    one = st.sampled_from(pool) | keys(columns)
    return order, tuple(draw(st.lists(one, min_size=size, max_size=size)))


def sign(number):
    return (number > 0) - (number < 0)


@given(orders_and_keys(size=3))
def test_the_order_of_keys_is_total(drawn):
    order, (a, b, c) = drawn
    assert order.compare(a, a) == 0
    assert sign(order.compare(a, b)) == -sign(order.compare(b, a))
    assert (order.compare(a, b) == 0) == (a == b)
    if order.compare(a, b) <= 0 and order.compare(b, c) <= 0:
        assert order.compare(a, c) <= 0


@pytest.mark.slow
@given(orders_and_keys(size=8))
def test_sorting_by_the_order_is_sorting_column_by_column(drawn):
    """The oracle sorts stably by one column after the other and never compares whole keys."""
    order, some = drawn
    assert sorted(some, key=cmp_to_key(order.compare)) == in_order(some, order)


@pytest.mark.slow
@given(orders_and_keys(size=8), st.lists(st.integers(0, 3), min_size=8, max_size=8))
def test_sort_keys_sort_as_the_order_does_and_shorter_positions_first(drawn, lengths):
    order, some = drawn
    cut = [key[:length] for key, length in zip(some, lengths, strict=True)]

    def compare(left, right):
        return order.compare(left, right) or len(left) - len(right)

    assert sorted(cut, key=order.sort_key) == sorted(cut, key=cmp_to_key(compare))


@given(orders_and_keys(size=1))
@example((order_of("long"), ((None,),)))
@example((order_of("long"), (None,)))
@example((order_of("decimal(38,18)"), ((Decimal("-0.000000000000000001"),),)))
@example((order_of("timestamp"), ((dt.datetime(1, 1, 1, tzinfo=dt.UTC),),)))
@example((order_of("timestamp"), ((dt.datetime.max.replace(tzinfo=dt.UTC),),)))
@example((order_of("timestamp_ntz"), ((dt.datetime.min,),)))
@example((order_of("string"), (("\u2028\x85\x00",),)))
def test_a_position_survives_being_pinned(drawn):
    """I2: encoded, written as JSON, parsed and decoded, it is the same position."""
    order, (position,) = drawn
    pinned = PinnedRange(after=order.encode(position), up_to=None)
    read = PinnedRange.model_validate_json(json.dumps(json.loads(pinned.model_dump_json())))
    assert order.decode(read.after) == position
    assert type(order.decode(read.after)) is type(position)


@given(st.sampled_from(sorted(KEY_VALUES)).flatmap(lambda kind: st.tuples(st.just(kind), KEY_VALUES[kind])))
def test_a_decoded_value_has_the_type_that_was_encoded(drawn):
    kind, value = drawn
    field = KeyField(name="k", type=kind)
    decoded = field.decode(field.encode(value))
    assert decoded == value
    assert type(decoded) is type(value)
    if isinstance(value, dt.datetime):
        assert (decoded.tzinfo is None) == (value.tzinfo is None)
