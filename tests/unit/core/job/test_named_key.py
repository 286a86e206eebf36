"""Keys and units as users name them."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.job.named_key import encoded_whole_key, key_from_text, whole_key
from tests.builders import order_of

ORDER = order_of("string", "long")


@pytest.mark.parametrize(
    ("typed", "key"),
    [("x", "x"), ("7", "7"), ('["x", 7]', ["x", 7]), (" [1.50]", ["1.50"]), ("[null]", [None]), ("", "")],
)
def test_a_key_is_typed_as_a_value_or_as_a_list(typed, key):
    assert key_from_text(typed) == key


def test_a_list_that_is_not_one_is_refused():
    with pytest.raises(InvalidJobError, match=r"key: '\[1' is not a JSON list"):
        key_from_text("[1")


def test_a_key_has_the_types_of_its_columns():
    assert whole_key(["x", "7"], ORDER, "key", "why") == ("x", 7)
    assert whole_key([None, 7], ORDER, "key", "why") == (None, 7)
    assert whole_key(7, order_of("long"), "key", "why") == (7,)


def test_a_key_is_pinned_as_spark_reads_it():
    assert encoded_whole_key(["x", "1_000"], ORDER, "key", "repair") == ("x", "1000")


@pytest.mark.parametrize(
    ("key", "why"),
    [
        (["x", "y"], r"why: \['x', 'y'\] is not a key of the view: the position's value for key column"),
        (["x", 1, 2], "is not a key of the view: the position has 3 columns"),
        ([], "is not a key of the view: the position has 0 columns"),
        ("x", r"why: \['x'\] needs a value for each of "),
    ],
)
def test_what_does_not_fit_the_columns_is_refused_with_its_reason(key, why):
    with pytest.raises(InvalidJobError, match=why):
        whole_key(key, ORDER, "key of the view", "why")
