"""A sample of keys costs little, and is large enough."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.sources.shared.postgresql.sampling import sampled_percent


@pytest.mark.parametrize("pages", [0, 1, 1_000])
def test_a_small_table_is_read_whole(pages: int) -> None:
    assert sampled_percent(pages) is None


@pytest.mark.parametrize(
    ("pages", "sampled"), [(1_001, 1_000), (20_000, 1_000), (100_000, 5_000), (200_000, 10_000), (10**8, 10_000)]
)
def test_of_a_larger_table_a_twentieth_is_read_but_not_too_few_or_too_many_pages(pages: int, sampled: int) -> None:
    percent = sampled_percent(pages)
    assert percent is not None
    assert round(pages * percent / 100) == sampled
