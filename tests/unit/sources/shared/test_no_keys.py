"""The index of a source that does not know its keys."""

from __future__ import annotations

from airflow_backfill_provider.core.scan.file_statistics import FileStatistics
from airflow_backfill_provider.core.scan.keys import KeyRange
from airflow_backfill_provider.sources.shared.no_keys import NoKeys


def test_rows_are_estimated_and_no_key_is_known():
    block = FileStatistics(path="orders-0", row_count=70, is_exact=False, size=700)
    assert NoKeys().count(block, KeyRange((3,), (4,))) == 70
    assert NoKeys().nth([block], KeyRange(None, None), 1) is None
