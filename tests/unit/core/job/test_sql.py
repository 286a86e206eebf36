"""Pieces of Spark SQL: quoted names, and texts that mean another time each day."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_backfill_provider.core.job.sql import is_relative_date, quote


@pytest.mark.parametrize(
    ("name", "quoted"), [("id", "`id`"), ("a b.c", "`a b.c`"), ("`", "````"), ("a`b``c", "`a``b````c`"), ("", "``")]
)
def test_a_name_is_quoted(name, quoted):
    assert quote(name) == quoted


@settings(max_examples=40)
@given(st.text(alphabet="`a .", max_size=8))
def test_no_name_ends_its_own_quotes(name):
    """Inside of the quotes, two backticks stand for one; nothing else is read."""
    inside = quote(name)[1:-1]
    assert inside.replace("``", "") == name.replace("`", "")
    assert inside.replace("``", "`") == name


@pytest.mark.parametrize(
    "text", ["now", " Today ", "TOMORROW", "yesterday UTC", "now Europe/Berlin", "12:30", "T7:05", " 01:02:03.5"]
)
def test_a_word_or_a_time_without_a_date_moves(text):
    assert is_relative_date(text)


@pytest.mark.parametrize(
    "text", ["2024-02-29", "2024-02-29 12:30", "1970", "", "nowhere", "known", "today is fine today", "123:00", "epoch"]
)
def test_any_other_text_stays(text):
    assert not is_relative_date(text)
