"""Digests of JSON values."""

from __future__ import annotations

from airflow_backfill_provider.core.digest import digest


def test_a_digest_does_not_depend_on_the_order_of_fields():
    assert digest({"a": 1, "b": [1, None]}) == digest({"b": [1, None], "a": 1})
    assert digest({"a": [1, 2]}) != digest({"a": [2, 1]})


def test_a_digest_distinguishes_null_from_the_word():
    assert len({digest(value) for value in (None, "null", "", [None], 0, False)}) == 6


def test_a_digest_takes_any_text():
    assert digest("\ud800") != digest("\ud801")
