"""``snapshot``: what it suits, and what it refuses."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_backfill_provider.core.epoch.replay import ReplayEpoch
from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.job.visibility import Visibility
from airflow_backfill_provider.core.scan.file_statistics import FileStatistics
from airflow_backfill_provider.core.scan.offset import HistoryPoint, Offset
from airflow_backfill_provider.core.scan.progress import Completed, InProgress, NotStarted
from airflow_backfill_provider.strategies.inputs import StrategyInputs
from airflow_backfill_provider.strategies.snapshot import FILES, Snapshot
from airflow_backfill_provider.strategies.snapshot.scan import FILES_END
from tests.builders import Orders, job_of, settings_of
from tests.unit.strategies.scan_states import state_of

KIND = Snapshot()


def inputs(**job):
    files = [FileStatistics(path=f"{number}", row_count=20, size=1000) for number in range(10)]
    return StrategyInputs(job=job_of(**job), files=files, rows=200, overlap=1.0, used_share=1.0)


def test_it_is_for_views_that_nobody_reads_before_they_are_finished():
    offer = KIND.offer(inputs(visibility="on_finish", rate_limit=10))
    assert offer.fits
    assert offer.reason.startswith("changes may wait until the view is finished")


def test_it_must_end_before_the_upstream_removes_its_files():
    """200 epochs of 30 seconds, and the creation, take 1.7 hours."""
    asked = {"visibility": "on_finish", "rate_limit": 1}
    enough = replace(inputs(**asked), files_kept_for=dt.timedelta(hours=2))
    assert KIND.offer(enough).fits
    KIND.require_possible(enough)
    too_short = replace(enough, files_kept_for=dt.timedelta(hours=1))
    assert KIND.offer(too_short).reason.startswith("the backfill takes about 1 h 40 min, and the upstream keeps")
    with pytest.raises(InvalidJobError, match=r"^strategy: snapshot cannot end in time: .* raise the rate limit"):
        KIND.require_possible(too_short)
    KIND.require_possible(replace(enough, files_kept_for=None))


def test_the_files_of_the_pinned_version_are_needed_until_all_are_read():
    pinned = HistoryPoint(offset=Offset(4))
    settings = settings_of(job_of(strategy="snapshot"), strategy="snapshot", start=pinned)
    for progress, needed in (
        (NotStarted(), Offset(4)),
        (InProgress((3, 9), 40), Offset(4)),
        (InProgress(FILES_END, 40), None),
        (Completed(FILES_END, 40), None),
    ):
        assert KIND.files_needed(settings, state_of(*[progress] * 4)) == needed


def test_each_byte_is_read_once_whatever_the_order_of_the_keys():
    assert KIND.cost(inputs(visibility="on_finish", rate_limit=10)).bytes == 10_000


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


@pytest.mark.parametrize(
    ("number", "said"),
    [(3, "all files are read; the changes since then are applied in at most 8"), (10, "all files are read; the next")],
)
def test_the_dry_run_describes_the_rest_of_the_replay(number, said):
    assert KIND.last_epochs(ReplayEpoch(number=number, backlog=9)).startswith(said)
