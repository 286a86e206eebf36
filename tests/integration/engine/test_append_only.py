"""A Delta table without change data feed becomes a view, epoch by epoch: every appended row exactly once."""

from __future__ import annotations

import pytest

from tests.integration.engine.lakehouse import Lakehouse

pytestmark = pytest.mark.spark

WITHOUT_FEED = {"delta.enableChangeDataFeed": "false"}


@pytest.fixture
def events(lakehouse: Lakehouse) -> Lakehouse:
    """Ten files of ten rows."""
    lakehouse.make_upstream("id BIGINT, name STRING", WITHOUT_FEED)
    for number in range(10):
        append(lakehouse, number)
    return lakehouse


def append(events: Lakehouse, number: int, rows: int = 10) -> None:
    """Append one file."""
    events.sql(
        f"INSERT INTO {{upstream}} SELECT /*+ COALESCE(1) */ id + {number * 1000}, concat('n', id) FROM range({rows})"
    )


def create(events: Lakehouse, **fields: object) -> None:
    events.create(
        **{
            "upstream": {"path": events.upstream_path, "append_only": True},
            "query": "SELECT id, name FROM upstream",
            **fields,
        }
    )


def ids(events: Lakehouse) -> list[int]:
    return sorted(row["id"] for row in events.view().select("id").collect())


def upstream_ids(events: Lakehouse) -> list[int]:
    return sorted(row["id"] for row in events.sql("SELECT id FROM {upstream}").collect())


def test_the_past_is_read_in_bounded_epochs_and_rows_that_come_meanwhile_once(events: Lakehouse) -> None:
    """I1 to I4: cuts inside of files."""
    create(events, rate_limit=24)
    counts = []
    for number in range(3):
        commit = events.epoch()
        assert commit is not None
        counts.append(commit.rows_read)
        events.assert_truth()
        append(events, 100 + number)
    assert counts == [24, 48, 72]
    events.finish()
    assert events.backfill.status().finished
    assert ids(events) == upstream_ids(events)
    append(events, 200)
    assert events.epoch() is not None
    assert events.epoch() is None
    assert ids(events) == upstream_ids(events)
    events.assert_truth()
