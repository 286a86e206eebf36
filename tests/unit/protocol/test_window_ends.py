"""Jobs over views of common tables: windows end where all agree, nobody goes back, and who waits says for whom."""

from __future__ import annotations

from random import Random

import pytest

from airflow_backfill_provider.core.errors import UpstreamNotFinishedError
from airflow_backfill_provider.core.status.alarm import AlarmKind
from airflow_backfill_provider.jobs import backfill
from airflow_backfill_provider.jobs.view_logs import ViewLogs
from tests.diamonds import Lake, ViewJob, minute
from tests.several import shape_of_several
from tests.variants import exhaustive

pytestmark = pytest.mark.slow  # whole epochs through Delta tables


@pytest.fixture(autouse=True)
def _shape():
    with shape_of_several():
        yield


def diamond(folder):
    """Return a table with two views, and a view over both."""
    lake = Lake(folder, "a")
    views = lake.view("v1", "a"), lake.view("v2", "a")
    return lake, *views, lake.view("top", "v1", "v2", at=2)


def newest(lake, *names):
    return {name: lake.source(name).latest().number for name in names}


def test_windows_end_where_both_views_have_one_version_of_their_table(tmp_path):
    """I1"""
    lake, first, second, top = diamond(tmp_path)
    lake.commit("a", 3)
    first.run(4)
    waiting = top.ask(5)
    assert waiting.barrier is None
    assert waiting.reason == f"waits for job v2, which has not read as far in {tmp_path}/a"
    second.run(6)
    assert top.run(7) == newest(lake, "v1", "v2")
    assert top.ask(8).reason.startswith("the upstream has no changes")


def test_a_run_for_an_older_instant_moves_no_window_back(tmp_path):
    """I3"""
    lake, first, second, top = diamond(tmp_path)
    for at in (3, 6):
        lake.commit("a", at)
        for job in (first, second):
            job.run(at + 1)
    before = top.run(9, until=4)
    assert before is not None
    assert top.run(10, until=2) is None
    assert top.run(10, until=4) is None
    after = top.run(11)
    assert after == newest(lake, "v1", "v2")
    assert before["v1"] < after["v1"]
    barriers = top.backfill.store.barriers()
    assert [barriers[-1].window(name).from_offset.number for name in before] == list(before.values())


def test_a_job_waits_for_a_view_that_is_not_finished(tmp_path):
    lake = Lake(tmp_path, "a")
    lake.view("v1", "a")
    ViewJob(tmp_path, "v2", "a").create(1)
    with pytest.raises(UpstreamNotFinishedError, match="waits for v2"):
        ViewJob(tmp_path, "top", "v1", "v2").create(2)


@pytest.mark.exhaustive
def test_who_waits_longer_than_its_schedule_is_an_alarm_that_names_both_jobs(tmp_path, monkeypatch):
    lake, first, second, top = diamond(tmp_path)
    for at in (10, 20, 30):
        lake.commit("a", at)
        for job in (first, second, top):
            job.run(at + 1)
    lake.commit("a", 40)
    first.run(41)
    monkeypatch.setattr(backfill, "utc_now", lambda: minute(50))
    told = f"waits for job v2, which has not read as far in {tmp_path}/a"
    written = lake.source("v1").watermark(lake.source("v1").latest())

    def status(minutes):
        return top.backfill.status(lambda: written + (minute(minutes) - minute(0)))

    assert (status(5).waits_for, status(5).warnings, status(5).alarms) == (told, (told,), ())
    (alarm,) = status(60).alarms
    assert alarm.kind is AlarmKind.STALLED
    assert alarm.message == f"job top {told}; changes of v1 have waited for 1 h 0 min"
    second.run(51)
    assert status(60).waits_for is None, "it can read now, and only has not run"
    top.run(52)
    assert (status(60).waits_for, status(60).alarms) == (None, ())


@pytest.mark.parametrize("seed", [exhaustive(seed) for seed in range(12)])
def test_random_jobs_that_miss_runs_read_each_root_at_one_version(tmp_path, seed):
    """I1, I3, I4: as in the model, with two tables, two views over both or one, and late runs."""
    random = Random(seed)
    lake = Lake(tmp_path, "a", "b")
    lower = [lake.view("v1", "a"), lake.view("v2", "a", "b"), lake.view("v3", "v1", "b")]
    top = lake.view("top", "v2", "v3", at=2)
    for at in range(3, 13):
        for table in ("a", "b"):
            if random.random() < 0.4:
                lake.commit(table, at)
        for job in (*lower, top):
            if random.random() < 0.6:
                job.run(at + 0.5, until=random.choice((None, at)))
        _check(lake, top)
    for job in (*lower, top):
        job.run(20)
    frontier = _check(lake, top)
    assert sorted(frontier.values()) == sorted(lake.versions.values()), "I4"


def _check(lake, top):
    """Return which versions of the tables the view has, after a check that it has each at one version."""
    logs = ViewLogs()
    barrier = top.backfill.store.barriers()[-1]
    found = {}
    for name in ("v2", "v3"):
        window = barrier.window(name)
        found[name] = list(logs.of(lake.source(name)).with_rows_of(window.to_offset, minute(99)))
    pairs = [
        (one, other)
        for one in found["v2"]
        for other in found["v3"]
        if all(other.frontier.get(root, offset) == offset for root, offset in one.frontier.items())
    ]
    assert pairs, f"I1: {found}"
    (mine,) = {tuple(sorted(one.frontier.items())) for one, _ in pairs[:1]}
    return {root: offset.number for root, offset in mine}
