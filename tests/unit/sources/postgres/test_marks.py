"""Marks that only who knows the change log's secret can write."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.sources.postgres.marks import BEGIN, Marks

MARKS = Marks("secret of the log")


@pytest.mark.parametrize("name", ["reading 0", "orders/abc/12", "ä b  c", "", "a b "])
def test_a_mark_is_read_as_it_was_written(name):
    assert MARKS.read(MARKS.text(name).encode()) == MARKS.text(name)


def test_a_mark_of_another_log_or_another_name_is_nobodys():
    signature = MARKS.text("one").removeprefix("one ")
    for text in (Marks("another").text("one"), f"two {signature}", "one", f"one{signature}", signature):
        assert MARKS.read(text.encode()) is None


def test_the_secret_is_in_no_mark():
    assert "secret" not in MARKS.text("one")


def test_the_beginning_needs_no_signature_because_nobody_asks_for_it():
    assert MARKS.read(BEGIN.encode()) == BEGIN
