"""Which of the upstream's columns a query uses."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.shapes.row.query import check_query


def test_used_columns_come_in_the_upstreams_order_and_whatever_their_case():
    query = check_query("SELECT Amount * 2 AS x FROM upstream WHERE STATUS = 'note'")
    assert query.columns_of(["id", "status", "note", "AMOUNT"]) == ("status", "AMOUNT")


@pytest.mark.parametrize(
    ("projection", "column"),
    [
        ("`order id`", "order id"),
        ("`a.b`", "a.b"),
        ("`a``b`", "a`b"),
        ("`it's`", "it's"),
        ("ÜNÏ", "ünï"),
        ("s.field.deep", "s"),
        ("upstream.s.field", "s"),
        ("items[0].x", "items"),
        ("transform(items, i -> i + offset_)", "offset_"),
        ("`from`", "from"),
        ("extract(day FROM ts)", "ts"),
    ],
)
def test_a_used_column_is_found_however_it_is_written(projection, column):
    assert check_query(f"SELECT {projection} AS x FROM upstream").columns_of(["other", column]) == (column,)


@pytest.mark.parametrize(
    "projection",
    [
        "amount * 100 AS cents",
        "amount * 100 cents",
        "amount AS `cents`",
        "cents(amount)",
        "s.cents",
        "upstream.s.cents",
        "items[0].cents",
        "to_json(s).cents",
        "'cents'",
        "amount -- cents",
    ],
)
def test_a_column_is_not_used_by_an_alias_a_function_or_a_field_of_its_name(projection):
    """Such a column may change its type or be dropped without any effect on an epoch."""
    text = f"SELECT {projection}\nFROM upstream"
    if "cents(" in projection:
        with pytest.raises(InvalidJobError, match="cents"):
            check_query(text)
        return
    assert "cents" not in check_query(text).columns_of(["amount", "cents", "items", "s"])


def test_a_column_is_not_used_by_a_type_or_a_keyword_of_its_name():
    query = check_query("SELECT CAST(a AS date), b::timestamp FROM upstream WHERE c IS NOT NULL")
    assert query.columns_of(["a", "b", "c", "date", "timestamp", "from", "where", "not"]) == ("a", "b", "c")


@pytest.mark.parametrize(
    "projection",
    [
        "amount AS cents, cents + 1 AS more",
        "amount AS cents, upstream.cents AS again",
        "amount AS cents, UPSTREAM.`Cents` AS again",
        "amount AS cents, transform(items, i -> i + cents)",
        "cents.amount",
        "IDENTIFIER('cents') AS x",
        "IDENTIFIER('upstream.`cents`') AS x",
        "CASE WHEN cents IN (1) THEN 1 END",
        "cents cents",
    ],
)
def test_a_column_is_used_also_where_an_alias_has_its_name(projection):
    """Without the column, Spark would silently read the name as the alias."""
    assert "cents" in check_query(f"SELECT {projection} FROM upstream").columns_of(["amount", "cents", "items"])


@pytest.mark.parametrize("text", ["IDENTIFIER('a' || 'b')", "IDENTIFIER('upper')('a')", "s.identifier('a')"])
def test_a_name_that_is_computed_is_refused(text):
    with pytest.raises(InvalidJobError):
        check_query(f"SELECT {text} AS x FROM upstream")


@pytest.mark.parametrize("projection", ["*", "upstream.*", "* EXCEPT (a)", "struct(*) AS s", "xxhash64(*) AS h"])
def test_a_star_uses_every_column(projection):
    assert check_query(f"SELECT {projection} FROM upstream").columns_of(["a", "b"]) == ("a", "b")
