"""A storage that does not answer is told from a table that is damaged or missing."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.errors import StorageUnavailableError
from airflow_backfill_provider.lake.delta_log import DeltaLog
from airflow_backfill_provider.lake.upstream import UpstreamTable
from airflow_backfill_provider.lake.view_identity import view_identity
from airflow_backfill_provider.state.store import BackfillReader

NOBODY_THERE = {
    "AWS_ENDPOINT_URL": "http://127.0.0.1:1",
    "AWS_ALLOW_HTTP": "true",
    "AWS_ACCESS_KEY_ID": "somebody",
    "AWS_SECRET_ACCESS_KEY": "a secret",
    "AWS_REGION": "us-east-1",
    "max_retries": "0",
}
PLACE = "s3://bucket/table"


@pytest.mark.parametrize(
    "look",
    [
        lambda: BackfillReader(PLACE, NOBODY_THERE).settings(),
        lambda: BackfillReader(PLACE, NOBODY_THERE).barriers(),
        lambda: UpstreamTable(PLACE, NOBODY_THERE).latest_version(),
        lambda: DeltaLog(PLACE, NOBODY_THERE).versions(),
        lambda: DeltaLog(PLACE, NOBODY_THERE).commit(3),
        lambda: view_identity(PLACE, NOBODY_THERE),
    ],
    ids=["settings", "barrier log", "upstream", "versions", "commit", "view"],
)
def test_a_storage_that_does_not_answer_is_worth_another_try(look):
    with pytest.raises(StorageUnavailableError, match="cannot be reached") as caught:
        look()
    assert caught.value.retryable
    assert PLACE in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "a secret" not in str(caught.value)
