"""Sizes as people write them."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.sizes import bytes_of


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("134217728", 2**27),
        ("128mb", 2**27),
        (" 128 MB ", 2**27),
        ("1g", 2**30),
        ("2T", 2**41),
        ("64kb", 2**16),
        ("", None),
        ("auto", None),
        ("1.5g", None),
        ("1 mib", None),
        ("-1", None),
    ],
)
def test_sizes_are_read_as_delta_writes_them_in_properties(text, size):
    assert bytes_of(text) == size
