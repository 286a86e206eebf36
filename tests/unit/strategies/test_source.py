"""``source``: what it suits, what it costs, and where a job begins."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.job.visibility import Visibility
from airflow_backfill_provider.core.scan.file_statistics import FileStatistics
from airflow_backfill_provider.core.scan.offset import HistoryPoint
from airflow_backfill_provider.sources.delta.source import DeltaSource
from airflow_backfill_provider.sources.split_offsets import offset_of
from airflow_backfill_provider.strategies.inputs import StrategyInputs
from airflow_backfill_provider.strategies.no_shuffle import NoShuffle
from airflow_backfill_provider.strategies.source import SourceBackfill
from airflow_backfill_provider.strategies.source.location import dead_letters_of
from tests.builders import job_of, settings_of
from tests.unit.strategies.source.in_memory import Appended, NumberedSplits

KIND = SourceBackfill()
TYPES = {"partition": "integer", "offset": "long"}


def topic_job(folder="/lake", kafka=None, **changes):
    upstream = {"connection": "events", "topic": "orders", **(kafka or {})}
    return job_of(folder, upstream={"kafka": upstream}, query="SELECT partition, offset FROM upstream", **changes)


def inputs(**job):
    found = [
        FileStatistics(path=f"orders-{split}", row_count=200, size=10_000, is_exact=False, lower=(split, 0))
        for split in range(2)
    ]
    return StrategyInputs(job=topic_job(**job), files=found, rows=400, overlap=0.0, used_share=0.5)


def test_it_is_for_sources_whose_rows_are_appended_to_splits():
    assert KIND.can_read(Appended(NumberedSplits()))
    assert not KIND.can_read(DeltaSource("/nowhere"))
    assert not NoShuffle().can_read(Appended(NumberedSplits()))


@pytest.mark.parametrize("change", [{}, {"rate_limit": 0}, {"parallelism": 3}], ids=str)
def test_it_suits_every_such_job(change):
    KIND.require_job(topic_job(**change))
    assert KIND.offer(inputs(**change)).fits


def test_changes_that_wait_are_refused():
    """There are none: a row never changes."""
    for strategy in ("auto", "source"):
        with pytest.raises(InvalidJobError, match="visibility: rows that are only appended have no changes that"):
            topic_job(strategy=strategy, visibility=Visibility.ON_FINISH)


def test_each_row_is_read_once():
    cost = KIND.cost(inputs(rate_limit=100))
    assert (cost.bytes, cost.rows, cost.epochs) == (20_000, 400, 4)
    assert KIND.cost(inputs(rate_limit=100, parallelism=2)).spark_runs > cost.spark_runs


def test_a_job_begins_at_the_oldest_rows_that_are_left():
    """So that it is known later which rows it has lost (I6)."""
    start = KIND.start("orders", Appended(NumberedSplits(3, 0, 7)), None)
    assert start == HistoryPoint(offset=offset_of({0: 3, 1: 0, 2: 7}), mark="m1")


def test_rows_are_scanned_by_vnode_and_place():
    scan = settings_of(topic_job(vnode_count=7), strategy="source", types=TYPES).scan
    assert scan.order.names[1:] == ("partition", "offset")
    assert (scan.vnode_count, scan.vnodes) == (7, frozenset(range(7)))


def test_it_has_a_table_only_if_records_that_cannot_be_read_are_listed(lake):
    plain = settings_of(topic_job(lake), strategy="source", types=TYPES)
    assert KIND.is_prepared(plain, None)
    listing = settings_of(topic_job(lake, {"unreadable_records": "dead_letter"}), strategy="source", types=TYPES)
    assert not KIND.is_prepared(listing, None)
    write_deltalake(dead_letters_of(listing), pa.table({"a": [1]}))
    assert KIND.is_prepared(listing, None)
    assert KIND.keeps_tables(listing)
    for _ in range(2):
        KIND.clean_up(listing, None)
        assert not Path(dead_letters_of(listing)).exists()
