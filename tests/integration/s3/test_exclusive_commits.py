"""New jobs in buckets: where a second writer can replace a commit, nothing is written."""

from __future__ import annotations

from typing import Any

import pytest
from deltalake import DeltaTable, write_deltalake

from airflow_backfill_provider.core.errors import UnsafeCommitsError
from airflow_backfill_provider.lake.log import exclusive_commits
from airflow_backfill_provider.lake.log.exclusive_commits import require_exclusive_commits
from demo.s3_server import S3Server

pytestmark = pytest.mark.slow  # a server


def left(s3: S3Server) -> list[str]:
    """Return the objects in the bucket whose names are those of probes."""
    return [str(path) for path in (s3.folder / "data").rglob("*_probe_*")]


def test_a_store_with_conditional_writes_is_accepted_and_left_as_it_was(s3: S3Server) -> None:
    require_exclusive_commits([f"{s3.root}/probed/view", f"{s3.root}/settings", "/lake/local"], s3.storage_options)
    assert left(s3) == []


def test_a_bucket_that_ignores_conditions_is_refused_by_its_name(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []

    def write_over_the_first(table: DeltaTable, *arguments: Any, **options: Any) -> None:
        tried.append(table.table_uri)
        write_deltalake(DeltaTable(table.table_uri, storage_options=s3.storage_options), *arguments, **options)

    monkeypatch.setattr(exclusive_commits, "write_deltalake", write_over_the_first)
    tables = [f"{s3.root}/probed/settings", f"{s3.root}/probed/view"]
    with pytest.raises(UnsafeCommitsError, match=rf"{s3.root} lets a second writer replace the first one's commit"):
        require_exclusive_commits(tables, s3.storage_options)
    assert len(set(tried)) == 1, "what one place of a bucket shows holds for all of it"
    assert left(s3) == []
