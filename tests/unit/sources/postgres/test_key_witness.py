"""Whether a key identified rows all the time since the last look."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.sources.postgres.key_witness import UniqueIndex, was_unique
from airflow_backfill_provider.sources.shared.postgresql.rewrites import TableLook

NOW = TableLook(table="7", relation="public.orders", over_before=200, next_id=210, attributes=(), files={})
OLD, RECENT = 99, 150


@pytest.mark.parametrize(
    ("indexes", "expected"),
    [
        ([UniqueIndex(30, 31, RECENT)], True),
        ([UniqueIndex(31, 31, RECENT)], True),
        ([UniqueIndex(40, 41, RECENT)], False),
        # It was there before the known one was dropped.
        ([UniqueIndex(40, 41, OLD)], True),
        ([UniqueIndex(40, 41, RECENT), UniqueIndex(50, 50, OLD)], True),
        ([], False),
    ],
)
def test_one_index_must_have_been_there_all_the_time(indexes, expected):
    """REINDEX CONCURRENTLY makes another index (30), and its constraint (31) stays."""
    assert was_unique(31, indexes, NOW, last_look=100) is expected
