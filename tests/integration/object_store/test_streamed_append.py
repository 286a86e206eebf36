"""A landing that is streamed into a bucket, batch by batch, and that finds the bucket not answering at each request."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator

import pytest

from airflow_backfill_provider.core.errors import ConcurrentUpdateError, StorageUnavailableError
from airflow_backfill_provider.sources.shared.change_log import table
from airflow_backfill_provider.sources.shared.change_log.changes import LoggedChange, LoggedKind
from airflow_backfill_provider.sources.shared.change_log.table import ChangeLog
from tests.integration.object_store.conftest import S3

pytestmark = pytest.mark.slow

AT = dt.datetime(2026, 1, 2, tzinfo=dt.UTC)
LONG = "x" * (1 << 20)


def changes(count: int) -> Iterator[LoggedChange]:
    for number in range(count):
        yield LoggedChange(
            offset=11 + number,
            number=number,
            transaction=7,
            committed_at=AT,
            table="1",
            kind=LoggedKind.INSERT,
            new={"id": str(number), "name": LONG},
        )


def test_a_landing_is_streamed_into_a_bucket_or_says_that_it_does_not_answer(s3: S3, monkeypatch):
    """I2: after each refusal it is landed again, and its changes are there once."""
    monkeypatch.setattr(table, "MOST_IN_MEMORY", 4 << 20)
    log = ChangeLog(f"{s3.root}/streamed", s3.options)
    log.create("a database", 10, at=AT)
    refused = 0
    for after in range(40):
        try:
            with s3.outage(after, 403):
                ChangeLog(log.location, s3.options).land(changes(20), after=10, through=100)
        except StorageUnavailableError:
            refused += 1
        except ConcurrentUpdateError:
            # The last attempt was committed, and did not learn of it.
            break
        else:
            break
    assert refused > 3
    landed = ChangeLog(log.location, s3.options)
    assert landed.queries.landed_through == 100
    with pytest.raises(StorageUnavailableError), s3.outage(0, 403):
        ChangeLog(log.location, s3.options).land(changes(1), after=100, through=101)
    rows = landed._log.existing().to_pyarrow_table(columns=["number", "kind"]).to_pylist()
    assert sorted(row["number"] for row in rows if row["kind"] == "insert") == [*range(20)]
