"""Which data files of a log lie outside of its table."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.errors import UpstreamError
from airflow_backfill_provider.lake.files.own_files import lies_outside, require_own

OUTSIDE = [
    "/elsewhere/a",
    "file:/elsewhere/a",
    "file:///elsewhere/a",
    "FILE:/elsewhere/a",
    "s3://bucket/a",
    "s3a://bucket/a",
    "abfss://container@account/a",
    "hdfs:/a",
]


@pytest.mark.parametrize("path", OUTSIDE)
def test_an_absolute_path_or_a_uri_lies_outside(path: str) -> None:
    assert lies_outside(path)


@pytest.mark.parametrize("path", ["a.parquet", "day=1/a", "at=2024-01-01 00:00:00/a", "link=http://x/a", "a:b"])
def test_a_relative_path_lies_inside_even_with_a_colon(path: str) -> None:
    """The folder of a partition may have any text."""
    assert not lies_outside(path)


@pytest.mark.parametrize("path", OUTSIDE)
def test_files_outside_are_refused_with_what_to_do(path: str) -> None:
    """I6."""
    with pytest.raises(UpstreamError, match=r"^/t refers to data files outside its folder \(a shallow clone\); "):
        require_own("/t", ["a", path])
