"""``arrangement``: which jobs it takes, what it costs, and what it says of itself."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.scan.file_statistics import FileStatistics
from airflow_backfill_provider.strategies.arrangement import SORT_PASSES, Arrangement
from airflow_backfill_provider.strategies.inputs import StrategyInputs
from tests.builders import job_of, settings_of

KIND = Arrangement()


def inputs(used_share, **job):
    files = [FileStatistics(path="f", row_count=200, size=10_000)]
    return StrategyInputs(job=job_of(**job), files=files, rows=200, overlap=1.0, used_share=used_share)


@pytest.mark.parametrize(("used_share", "size"), [(1.0, 40_000), (0.25, 10_000)])
def test_it_moves_the_used_columns_once_for_each_pass_and_once_to_read_them(used_share, size):
    assert SORT_PASSES == 3
    assert KIND.cost(inputs(used_share, rate_limit=20)).bytes == size


def test_parallel_task_runs_are_counted():
    cost = KIND.cost(inputs(1.0, rate_limit=20, parallelism=3))
    assert (cost.epochs, cost.spark_runs) == (10, 1 + 10 * (3 + 1))


def test_it_suits_any_job_that_it_takes():
    assert KIND.offer(inputs(1.0, parallelism=4)).fits


def test_rows_that_move_between_vnodes_while_their_changes_wait_are_refused():
    upstream = {"path": "/lake/orders", "key": ["id"], "distribution_key": ["status"]}
    job = job_of(upstream=upstream, visibility="on_finish", strategy="no_shuffle")
    with pytest.raises(InvalidJobError, match="a change of status can move a row"):
        KIND.require_job(job)
    offer = KIND.offer(StrategyInputs(job=job, files=[], rows=0, overlap=1.0, used_share=1.0))
    assert not offer.fits
    assert "a change of status can move a row" in offer.reason
    KIND.require_job(job.model_copy(update={"visibility": job_of().visibility}))


@pytest.mark.parametrize("keep", [False, True])
def test_its_table_is_kept_if_the_job_asks_for_it(keep):
    job = job_of(keep_arrangement=keep, strategy="arrangement")
    assert KIND.keeps_tables(settings_of(job, strategy="arrangement")) is keep


def test_a_job_without_the_table_is_not_prepared_and_cleaning_up_is_no_error(lake):
    settings = settings_of(job_of(lake, strategy="arrangement"), strategy="arrangement")
    assert not KIND.is_prepared(settings, None)
    KIND.clean_up(settings, None)
    assert KIND.compactions(settings, None, None) == {}


def test_its_scan_begins_with_the_vnode():
    settings = settings_of(job_of(restrict_to={"vnodes": [1, 2]}), strategy="arrangement")
    scan = KIND.scan(settings)
    assert scan.order.names == ("__vnode", "id")
    assert (scan.vnode_count, scan.vnodes) == (4, frozenset({1, 2}))


def test_what_it_says_for_the_dry_run():
    assert KIND.files_read(1, 9) == "1 file of the arrangement"
    assert KIND.files_read(2, 9) == "2 files of the arrangement"
    assert "sorts the upstream once" in KIND.first_chunk()
