"""When two expressions of a query are the same."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.shapes.group.terms import meaning, term
from airflow_backfill_provider.shapes.query_text import read_query


def tokens(text: str):
    return read_query(text).tokens


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("a", "`A`", True),
        ("u.a", "a", True),
        ("U . a + 1", "(a+1)", True),
        ("lower(u.a)", "LOWER( a )", True),
        ("v.a", "a", False),
        ("s.u.a", "s.a", False),
        ("'a'", "'A'", False),
        ("'a'", "a", False),
        ("a + 1", "1 + a", False),
        ("a['x']", "a['X']", False),
    ],
)
def test_names_are_equal_without_case_quotes_and_relation_and_texts_only_as_they_are(one, other, same):
    assert (meaning(tokens(one), "u") == meaning(tokens(other), "u")) is same


@pytest.mark.parametrize(
    ("text", "name"),
    [("a", "a"), ("u.`B c`", "B c"), ("a + 1", ""), ("s.u.a", ""), ("'a'", ""), ("1", ""), ("f(a)", "")],
)
def test_only_a_plain_column_has_a_name_of_its_own(text, name):
    assert term(tokens(text), "u").name == name
