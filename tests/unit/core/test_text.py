"""Numbers as people read them."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core import text


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(0.4, "0 s"), (59, "59 s"), (61, "1 min 1 s"), (3600, "1 h 0 min"), (90_000, "1 d 1 h")],
)
def test_durations(seconds, expected):
    assert text.duration(seconds) == expected


@pytest.mark.parametrize(("count", "expected"), [(0, "0 rows"), (1, "1 row"), (2_000_000, "2,000,000 rows")])
def test_rows(count, expected):
    assert text.rows(count) == expected


@pytest.mark.parametrize(("count", "expected"), [(5, "5 bytes"), (2048, "2.0 KiB"), (3 * 2**40, "3.0 TiB")])
def test_sizes(count, expected):
    assert text.size(count) == expected


def test_percent_does_not_round_up_to_all():
    assert text.percent(0.9999) == "99.9 %"
    assert text.percent(1.0) == "100.0 %"


@pytest.mark.parametrize(("count", "expected"), [(0, "0 files"), (1, "1 file"), (1200, "1,200 files")])
def test_files(count, expected):
    assert text.files(count) == expected


@pytest.mark.parametrize(("count", "expected"), [(0, "0 bytes"), (1, "1 byte"), (1200, "1,200 bytes")])
def test_counted_things(count, expected):
    assert text.counted(count, "byte") == expected
