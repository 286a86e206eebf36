"""The filter of changed keys as bits."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from airflow_backfill_provider.spark.small_changes import BITS_PER_KEY, filter_words

hashes = st.integers(-(2**63), 2**63 - 1)


def is_set(words: list[int], found: int) -> bool:
    """Look a bit up as Spark's ``pmod``, ``element_at`` and ``getbit`` do."""
    bit = found % (len(words) * 64)
    return bool((words[bit // 64] % 2**64) >> (bit % 64) & 1)


@given(st.lists(hashes))
def test_every_changed_key_gets_through(changed):
    words = filter_words(changed)
    assert all(is_set(words, found) for found in changed)
    assert all(-(2**63) <= word < 2**63 for word in words)


@given(st.sets(hashes, min_size=1))
def test_no_more_bits_are_set_than_there_are_keys(changed):
    words = filter_words(changed)
    assert sum((word % 2**64).bit_count() for word in words) <= len(changed)
    assert len(words) * 64 >= len(changed) * BITS_PER_KEY


def test_without_changes_no_key_gets_through():
    assert filter_words([]) == [0]
