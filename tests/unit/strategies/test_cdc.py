"""``cdc``: what it suits, what it costs, and which tables are its own."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.scan.file_statistics import FileStatistics
from airflow_backfill_provider.core.scan.keys import KeyRange
from airflow_backfill_provider.sources.delta.source import DeltaSource
from airflow_backfill_provider.strategies.cdc import Cdc
from airflow_backfill_provider.strategies.cdc.location import sample_of, table_of
from airflow_backfill_provider.strategies.inputs import StrategyInputs
from tests.builders import job_of, order_of, settings_of

KIND = Cdc()


def inputs(**job):
    found = [FileStatistics(path="table", row_count=200, size=10_000, is_exact=False)]
    return StrategyInputs(job=job_of(**job), files=found, rows=200, overlap=0.0, used_share=0.5)


@pytest.mark.parametrize("rate_limit", [None, 0, 1])
def test_it_suits_every_job_over_present_rows(rate_limit):
    assert not KIND.can_read(DeltaSource("/nowhere"))
    assert KIND.offer(inputs(rate_limit=rate_limit)).fits


def test_each_used_byte_is_read_from_the_database_and_from_the_lake():
    assert KIND.cost(inputs()).bytes == 10_000


def test_parallel_task_runs_are_refused_wherever_they_are_requested():
    with pytest.raises(InvalidJobError, match="^parallelism: 2 task runs cannot share the one position"):
        KIND.require_job(job_of(parallelism=2))
    KIND.require_job(job_of())
    with pytest.raises(InvalidJobError, match="job paid_orders cannot be rescaled to 3"):
        KIND.require_parallelism(3, settings_of())
    KIND.require_parallelism(1, settings_of())


def test_rows_are_scanned_by_key_within_the_range_of_the_job():
    settings = settings_of(job_of(restrict_to={"keys": {"after": [4]}}), strategy="cdc")
    scan = settings.scan
    assert (scan.order, scan.vnode_count, scan.keys) == (settings.key_order, 4, KeyRange((4,), None))
    assert scan.order.names == ("id",)
    assert order_of("long").fields[0].type == scan.order.fields[0].type


def test_its_tables_are_there_once_they_are_made_and_cleaned_up_together(lake):
    settings = settings_of(job_of(lake), strategy="cdc")
    assert not KIND.is_prepared(settings, None)
    write_deltalake(sample_of(settings), pa.table({"a": [1]}))
    assert not KIND.is_prepared(settings, None)
    write_deltalake(table_of(settings), pa.table({"a": [1]}))
    assert KIND.is_prepared(settings, None)
    assert not KIND.is_prepared(settings_of(job_of(lake), strategy="cdc", incarnation="b2"), None)
    for _ in range(2):
        KIND.clean_up(settings, None)
        assert not KIND.is_prepared(settings, None)
        assert not any(Path(location).exists() for location in (table_of(settings), sample_of(settings)))
