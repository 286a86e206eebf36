"""The order of keys, and how positions are written down."""

from __future__ import annotations

import datetime as dt
import os
import time
from decimal import Decimal
from itertools import pairwise

import pytest

from airflow_backfill_provider.core.errors import InvalidJobError, StateLayoutError
from airflow_backfill_provider.core.scan.keys import EVERYTHING, KeyField, KeyKind, KeyOrder, KeyRange
from tests.builders import order_of

BERLIN = dt.timezone(dt.timedelta(hours=1))


def instant(text):
    return dt.datetime.fromisoformat(text).replace(tzinfo=dt.UTC)


ASCENDING = {
    "byte": [None, -128, -1, 0, 1, 127],
    "short": [None, -32768, 0, 32767],
    "integer": [None, -(2**31), 0, 2**31 - 1],
    "long": [None, -(2**63), -(2**53) - 1, -(2**53), 2**53, 2**53 + 1, 2**63 - 1],
    "string": [None, "", " ", "A", "B", "Z", "a", "a\x00", "aa", "b", "ä", "\uffff", "\U00010000", "\U0010ffff"],
    "decimal(38,18)": [None, Decimal("-1E19"), Decimal("-0.1"), Decimal(0), Decimal("0.1"), Decimal("0.10000000001")],
    "date": [None, dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(2024, 2, 29), dt.date(9999, 12, 31)],
    "timestamp": [
        None,
        instant("0001-01-01"),
        instant("1969-12-31T23:59:59.999999"),
        instant("2024-02-28T23:59:59.000001"),
        instant("2024-02-28T23:59:59.000002"),
        instant("9999-12-31T23:59:59.999999"),
    ],
    "timestamp_ntz": [None, dt.datetime(1, 1, 1), dt.datetime(2024, 3, 31, 2, 30), dt.datetime(9999, 12, 31)],
    "binary": [None, b"", b"\x00", b"\x00\x00", b"\x7f", b"\x80", b"\xff", b"\xff\x00"],
    "boolean": [None, False, True],
}


@pytest.mark.parametrize("kind", ASCENDING)
def test_values_are_ordered_as_in_storage_with_nulls_first(kind):
    """docs/concepts/rules.md#the-order-of-keys: nulls first, strings and binary by their bytes."""
    order = order_of(kind)
    for smaller, larger in pairwise(ASCENDING[kind]):
        assert order.compare((smaller,), (larger,)) < 0
        assert order.compare((larger,), (smaller,)) > 0
        assert order.compare((larger,), (larger,)) == 0


@pytest.mark.parametrize("kind", ASCENDING)
def test_nulls_come_first_also_where_a_column_descends(kind):
    order = order_of((kind, True))
    null, *values = ASCENDING[kind]
    for first, then in pairwise([null, *reversed(values)]):
        assert order.compare((first,), (then,)) < 0
        assert order.compare((then,), (first,)) > 0


def test_strings_are_compared_by_utf8_and_not_by_utf16():
    """In UTF-16 the surrogate pair of U+10000 would come before U+FFFD."""
    assert order_of("string").compare(("\ufffd",), ("\U00010000",)) < 0


def test_strings_that_are_not_well_formed_are_compared_too():
    """Programs that cut strings in UTF-16 write half of a surrogate pair."""
    order = order_of("string")
    assert order.compare(("\ud83d",), ("\ue000",)) < 0 < order.compare(("\ud83d",), ("a",))
    assert sorted([("\ud83d",), ("a",), ("\ue000",)], key=order.sort_key) == [("a",), ("\ud83d",), ("\ue000",)]


def test_equal_numbers_of_another_scale_are_one_position():
    assert order_of("decimal(10,2)").compare((Decimal("1.5"),), (Decimal("1.50"),)) == 0


def test_one_instant_in_two_zones_is_one_position():
    here, there = instant("2024-01-01T00:00:00"), dt.datetime(2024, 1, 1, 1, tzinfo=BERLIN)
    assert order_of("timestamp").compare((here,), (there,)) == 0


def test_a_composite_key_is_compared_column_by_column_each_in_its_own_direction():
    order = order_of("string", ("long", True), "boolean")
    ordered = [
        (None, None, None),
        (None, 1, None),
        ("a", None, True),
        ("a", 9, False),
        ("a", 9, True),
        ("a", 3, None),
        ("b", 9, None),
    ]
    for smaller, larger in pairwise(ordered):
        assert order.compare(smaller, larger) < 0
        assert order.compare(larger, smaller) > 0


def test_a_shorter_bound_is_compared_by_its_columns_only():
    """Statistics may cover the leading columns alone."""
    order = order_of("long", "long")
    assert order.compare((5,), (5, 9)) == 0
    assert order.compare((4,), (5, 9)) < 0
    assert order.compare((), (5, 9)) == 0


def test_names_are_the_columns_in_order():
    assert order_of("long", "string").names == ("k1", "k2")


# --- writing down ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        ("long", -(2**63), "-9223372036854775808"),
        ("string", "", ""),
        ("string", "null\n'\"\\`\U00010000", "null\n'\"\\`\U00010000"),
        ("decimal(5,3)", Decimal("-99.999"), "-99.999"),
        ("decimal(38,0)", Decimal("9" * 38), "9" * 38),
        ("decimal(10,2)", Decimal("1E+2"), "100"),
        ("decimal(38,18)", Decimal("1E-18"), "0.000000000000000001"),
        ("date", dt.date(1, 1, 1), "0001-01-01"),
        ("timestamp", instant("2024-02-28T23:59:59.000001"), "2024-02-28T23:59:59.000001Z"),
        ("timestamp", dt.datetime(2024, 1, 1, 0, 30, tzinfo=BERLIN), "2023-12-31T23:30:00.000000Z"),
        ("timestamp_ntz", dt.datetime(2024, 3, 31, 2, 30), "2024-03-31T02:30:00.000000"),
        ("binary", b"", ""),
        ("binary", b"\x00\xff", "00ff"),
        ("boolean", False, "false"),
        ("boolean", True, "true"),
    ],
)
def test_values_are_written_exactly_and_read_back_equal(kind, value, text):
    field = KeyField(name="k", type=kind)
    assert field.encode(value) == text
    assert field.decode(text) == value


@pytest.mark.parametrize("text", ["2024-01-01T01:30:00+01:00", "2024-01-01T00:30:00Z", "2024-01-01T00:30:00"])
def test_an_instant_may_be_written_with_any_offset_and_is_utc_without(text):
    """Bounds of a job are written by hand."""
    value = KeyField(name="k", type="timestamp").decode(text)
    assert (value, value.utcoffset()) == (instant("2024-01-01T00:30:00"), dt.timedelta(0))


@pytest.mark.parametrize("kind", ASCENDING)
def test_null_and_the_empty_value_are_different_things(kind):
    field = KeyField(name="k", type=kind)
    assert field.encode(None) is None
    assert field.decode(None) is None


def test_no_position_and_the_position_of_a_null_key_are_different_things():
    """docs/concepts/rules.md#no-position-is-not-the-null-key."""
    order = order_of("long", "string")
    assert order.encode(None) is None
    assert order.decode(None) is None
    assert order.encode((None, None)) == (None, None)
    assert order.decode((None, None)) == (None, None)


def test_what_is_written_does_not_depend_on_this_machines_time_zone(monkeypatch):
    """I2: an injector in Tokyo and a driver in New York mean the same instant."""
    field = KeyField(name="k", type="timestamp")
    value = instant("2024-03-10T07:30:00")
    try:
        texts = set()
        for zone in ("America/New_York", "Asia/Tokyo", "UTC"):
            monkeypatch.setenv("TZ", zone)
            time.tzset()
            texts.add(field.encode(value))
            assert field.decode("2024-03-10T07:30:00.000000Z") == value
            assert field.decode("2024-03-10T07:30:00").isoformat() == "2024-03-10T07:30:00+00:00"
            assert field.decode("2024-03-10T08:30:00+01:00").isoformat() == "2024-03-10T07:30:00+00:00"
        assert texts == {"2024-03-10T07:30:00.000000Z"}
    finally:
        monkeypatch.undo()
        assert os.environ.get("TZ") is None or os.environ["TZ"]
        time.tzset()


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("long", "1.5"),
        ("long", ""),
        ("long", "x"),
        ("byte", "128"),
        ("short", "-32769"),
        ("integer", "3000000000"),
        ("long", "9223372036854775808"),
        ("decimal(5,2)", "1000"),
        ("decimal(5,2)", "1.005"),
        ("decimal(38,38)", "0." + "9" * 39),
        ("decimal(38,0)", "1e38"),
        ("decimal(5,2)", "1,5"),
        ("decimal(5,2)", "NaN"),
        ("decimal(5,2)", "-Infinity"),
        ("date", "2024-02-30"),
        ("timestamp", "yesterday"),
        ("timestamp_ntz", "2024-13-01T00:00:00"),
        ("timestamp_ntz", "2024-03-31T02:30:00Z"),
        ("binary", "0g"),
        ("boolean", "yes"),
        ("boolean", "True"),
    ],
)
def test_text_of_another_type_is_damaged_state(kind, text):
    """I6: the column and its type are named."""
    with pytest.raises(StateLayoutError, match=f"'k1' is not of type {kind}".replace("(", r"\(").replace(")", r"\)")):
        order_of(kind).decode((text,))


@pytest.mark.parametrize(
    ("kind", "text", "said"),
    [
        ("integer", "2147483648", "2147483648 is not between -2147483648 and 2147483647"),
        ("decimal(5,2)", "-1000.1", "-1000.1 has more than 3 digits before, or 2 after the point"),
        ("decimal(5,2)", "NaN", "'NaN' is not a number"),
        ("decimal(5,2)", "-Infinity", "'-Infinity' is not a number"),
        ("timestamp_ntz", "2024-03-31T02:30:00Z", "'2024-03-31T02:30:00Z' has a time zone"),
        ("boolean", "True", "'True' is neither 'true' nor 'false'"),
    ],
)
def test_the_error_says_what_the_text_is_not(kind, text, said):
    with pytest.raises(StateLayoutError, match=said):
        order_of(kind).decode((text,))


@pytest.mark.parametrize(
    ("kind", "texts"),
    [
        ("byte", ["-128", "127"]),
        ("long", ["-9223372036854775808", "9223372036854775807"]),
        ("decimal(5,2)", ["-999.99", "999.99"]),
        ("decimal(38,38)", ["0." + "9" * 38]),
        ("decimal(38,0)", ["9" * 38]),
    ],
)
def test_the_largest_values_of_a_type_are_values_of_it(kind, texts):
    field = KeyField(name="k", type=kind)
    assert [field.encode(field.decode(text)) for text in texts] == texts


@pytest.mark.parametrize(
    ("kind", "text"), [("decimal(38,38)", "0"), ("decimal(5,2)", "1.5000"), ("decimal(2,2)", "-0.00")]
)
def test_a_zero_before_the_point_and_zeros_at_the_end_are_no_digits(kind, text):
    assert order_of(kind).decode((text,)) == (Decimal(text),)


@pytest.mark.parametrize("encoded", [(), ("1", "2", "3")])
def test_a_position_with_no_columns_or_too_many_is_damaged_state(encoded):
    with pytest.raises(StateLayoutError, match=f"has {len(encoded)} columns, but the key has 2: k1, k2"):
        order_of("long", "long").decode(encoded)


@pytest.mark.parametrize("position", [(1,), (None,), (1, "a"), (None, None)])
def test_a_bound_may_be_the_leading_columns_of_a_key(position):
    order = order_of("long", "string", "long")
    encoded = order.encode(position)
    assert len(encoded) == len(position)
    assert order.decode(encoded) == position


def test_a_position_with_more_columns_than_the_key_is_refused():
    with pytest.raises(ValueError, match=r"\(1, 2\) has more columns than the key: k1"):
        order_of("long").encode((1, 2))


# --- ranges ---------------------------------------------------------------------------------------


PAIRS = [(a, b) for a in (None, 1, 2, 3) for b in (None, 1, 2)]


@pytest.mark.parametrize(
    ("after", "up_to", "inside"),
    [
        (None, None, PAIRS),
        (None, (None, None), [(None, None)]),
        ((None, None), (1, None), [(None, 1), (None, 2), (1, None)]),
        ((1, 2), (2, 1), [(2, None), (2, 1)]),
        ((1,), (2,), [(2, None), (2, 1), (2, 2)]),
        ((None,), (1,), [(1, None), (1, 1), (1, 2)]),
        ((1, 1), (2,), [(1, 2), (2, None), (2, 1), (2, 2)]),
        ((1,), (2, None), [(2, None)]),
        ((2,), None, [(3, None), (3, 1), (3, 2)]),
        ((2, 2), (2, 2), []),
        ((3,), (1,), []),
    ],
)
def test_a_range_is_half_open_and_a_shorter_bound_stands_for_all_keys_that_begin_with_it(after, up_to, inside):
    order = order_of("long", "long")
    assert [key for key in PAIRS if KeyRange(after, up_to).contains(key, order)] == inside


def test_a_range_follows_each_columns_direction():
    order = order_of(("long", True), "long")
    inside = [key for key in PAIRS if KeyRange((3, 2), (1,)).contains(key, order)]
    assert inside == [(1, None), (1, 1), (1, 2), (2, None), (2, 1), (2, 2)]


def test_everything_has_the_key_of_nulls():
    """docs/concepts/rules.md#no-position-is-not-the-null-key."""
    assert EVERYTHING.contains((None,), order_of("long"))
    assert not KeyRange((None,), None).contains((None,), order_of("long"))


@pytest.mark.parametrize(
    ("kind", "family"),
    [("decimal(1,0)", KeyKind.DECIMAL), ("decimal(38,18)", KeyKind.DECIMAL), ("long", KeyKind.INTEGER)],
)
def test_a_type_has_its_family(kind, family):
    assert KeyField(name="k", type=kind).kind is family


@pytest.mark.parametrize(
    "kind", ["double", "float", "decimal", "decimal(10)", '{"type":"struct"}', "interval day to second", "variant", ""]
)
def test_a_type_without_a_common_order_cannot_be_a_key(kind):
    """I6: doubles have NaN and two zeros, structs no common order."""
    with pytest.raises(InvalidJobError, match=r"upstream.key: column 'k1' has type .* allowed are binary, boolean, "):
        order_of(kind).fields[0].kind  # noqa: B018


def test_orders_are_values():
    assert KeyOrder((KeyField(name="a", type="long"),)) == KeyOrder((KeyField(name="a", type="long"),))
    assert order_of("long") != order_of(("long", True))
