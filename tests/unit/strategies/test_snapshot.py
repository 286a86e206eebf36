"""``snapshot``: what it suits, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.file_statistics import FileStatistics
from airflow_backfill_provider.core.visibility import Visibility
from airflow_backfill_provider.strategies.evidence import Evidence
from airflow_backfill_provider.strategies.snapshot import FILES, Snapshot
from tests.builders import Orders, job_of, settings_of

KIND = Snapshot()


def evidence(**job):
    files = [FileStatistics(path=f"{number}", row_count=20, size=1000) for number in range(10)]
    return Evidence(job=job_of(**job), files=files, rows=200, overlap=1.0, used_share=1.0)


def test_it_is_for_views_that_nobody_reads_before_they_are_finished():
    offer = KIND.offer(evidence(visibility="on_finish", rate_limit=10))
    assert offer.fits
    assert offer.reason.startswith("changes may wait until the view is finished")


def test_each_byte_is_read_once_whatever_the_order_of_the_keys():
    assert KIND.cost(evidence(visibility="on_finish", rate_limit=10)).bytes == 10_000


def test_changes_in_every_epoch_are_refused_and_waiting_is_the_default():
    assert job_of(strategy="snapshot").visibility is Visibility.ON_FINISH
    with pytest.raises(InvalidJobError, match="use on_finish, or another strategy"):
        job_of(strategy="snapshot", visibility="every_epoch")


def test_all_vnodes_share_a_position_of_files_and_rows():
    settings = settings_of(job_of(strategy="snapshot"), strategy="snapshot")
    assert settings.position_order == settings.scan.order
    assert settings.has_shared_position


def test_its_list_of_files_is_removed(tmp_path):
    settings = settings_of(job_of(tmp_path, strategy="snapshot"), strategy="snapshot")
    orders = Orders(tmp_path)
    orders.add(1)
    listed = Path(settings.own_table(FILES))
    listed.parent.mkdir(parents=True)
    Path(orders.path).rename(listed)
    KIND.clean_up(settings, None)
    assert not listed.exists()
    KIND.clean_up(settings, None)
