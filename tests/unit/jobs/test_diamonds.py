"""Several upstreams of which some are views: what of them can be read together, and what is refused by name."""

from __future__ import annotations

import shutil

import pytest
from deltalake import DeltaTable

from airflow_backfill_provider.core.errors import (
    InvalidJobError,
    UpstreamError,
    UpstreamNotFinishedError,
    UpstreamReplacedError,
)
from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.jobs import view_logs
from airflow_backfill_provider.jobs.diamonds import SeveralUpstreams
from airflow_backfill_provider.sources import open_source
from airflow_backfill_provider.sources.append_only.definition import AppendOnlyUpstream
from tests.builders import committed_at
from tests.diamonds import Lake, ViewJob, minute
from tests.several import shape_of_several

pytestmark = pytest.mark.slow  # whole epochs through Delta tables


@pytest.fixture(autouse=True)
def _shape():
    with shape_of_several():
        yield


def together(lake, *names, at, since=None, up_to=None):
    """Return which versions of some tables can be read together at a minute."""
    several = SeveralUpstreams(
        {name: lake.source(name) for name in names},
        since={name: Offset(version) for name, version in (since or {}).items()},
    )
    found = several.as_of(minute(at), up_to={name: Offset(version) for name, version in (up_to or {}).items()})
    return None if found is None else {name: offset.number for name, offset in found.offsets.items()}


def newest(lake, *names):
    return {name: lake.source(name).latest().number for name in names}


def test_two_views_of_a_table_are_read_where_both_have_one_version_of_it(tmp_path):
    """I1: neither at their newest versions, nor up to one instant: a job may have missed a run."""
    lake = Lake(tmp_path, "a")
    first, second = lake.view("v1", "a"), lake.view("v2", "a")
    both = newest(lake, "v1", "v2")
    assert together(lake, "v1", "v2", at=2) == both
    lake.commit("a", 3)
    first.run(4)
    assert together(lake, "v1", "v2", at=5) == both
    lake.commit("a", 6)
    second.run(7)
    assert together(lake, "v1", "v2", at=8) == both, "one has versions 1, and the other version 2"
    first.run(9)
    assert together(lake, "v1", "v2", at=10) == newest(lake, "v1", "v2")
    assert together(lake, "v1", "v2", at=4) == both


def test_views_that_looked_up_to_one_instant_may_differ(tmp_path):
    """I1: a commit may land late, between the runs of two jobs for the same instant."""
    lake = Lake(tmp_path, "a")
    first, second = lake.view("v1", "a"), lake.view("v2", "a")
    both = newest(lake, "v1", "v2")
    lake.commit("a", 3)
    first.run(5, until=5)
    lake.commit("a", 4)
    second.run(5, until=5)
    assert together(lake, "v1", "v2", at=6) == both


def test_an_epoch_without_rows_is_an_entry_too(tmp_path):
    """I4: a compaction of a table changes no row of a view of it, and another view reads it with rows of its own."""
    lake = Lake(tmp_path, "a", "b")
    first, second = lake.view("v1", "a"), lake.view("v2", "a", "b")
    lake.commit("a", 3)
    for view in (first, second):
        view.run(4)
    DeltaTable(f"{tmp_path}/a").optimize.compact()
    committed_at(f"{tmp_path}/a", 2, minute(5))
    lake.commit("b", 5)
    assert first.ask(6).barrier is None
    assert second.run(6) == {"a": 2, "b": 1}
    assert together(lake, "v1", "v2", at=7) == newest(lake, "v1", "v2")


def test_a_table_beside_a_view_of_it_waits_for_the_view(tmp_path):
    lake = Lake(tmp_path, "a")
    view = lake.view("v", "a")
    lake.commit("a", 3)
    assert together(lake, "v", "a", at=4) == {**newest(lake, "v"), "a": 0}
    view.run(4)
    lake.commit("a", 5)
    assert together(lake, "v", "a", at=6) == {**newest(lake, "v"), "a": 1}


def test_another_table_beside_a_view_is_read_as_of_the_instant_up_to_which_the_view_looked(tmp_path):
    """I1: otherwise each root has one version, and no instant has all of them."""
    lake = Lake(tmp_path, "a", "c")
    view = lake.view("v", "a")
    for at in (3, 5, 7):
        lake.commit("c", at)
    assert together(lake, "v", "c", at=8)["c"] == 3, "the view is complete while its table rests"
    lake.commit("a", 6)
    assert together(lake, "v", "c", at=8)["c"] == 2, "the view lacks a commit of minute 6"
    assert together(lake, "v", "c", at=8, since={**newest(lake, "v"), "c": 3})["c"] == 3, "I3"
    view.run(8)
    assert together(lake, "v", "c", at=9)["c"] == 3


def test_views_of_views_are_compared_by_their_roots(tmp_path):
    """Through all levels: one view reads the table, and the other a view of it together with another table."""
    lake = Lake(tmp_path, "a", "b")
    lake.view("v1", "a").run(1.5)
    second = lake.view("v2", "v1", "b", at=2)
    first = ViewJob(tmp_path, "v1", "a")
    both = newest(lake, "v1", "v2")
    lake.commit("a", 3)
    first.run(4)
    assert together(lake, "v2", "v1", at=5) == both
    assert together(lake, "v2", "a", at=5) == {"v2": both["v2"], "a": 0}
    lake.commit("b", 6)
    second.run(7)
    assert together(lake, "v2", "v1", at=8) == newest(lake, "v1", "v2")
    assert together(lake, "v2", "a", at=8) == {**newest(lake, "v2"), "a": 1}
    assert together(lake, "v2", "b", at=8) == {**newest(lake, "v2"), "b": 1}


def test_nothing_is_read_together_before_all_have_looked(tmp_path):
    lake = Lake(tmp_path, "a")
    lake.view("v1", "a")
    lake.commit("a", 3)
    lake.view("v2", "a", at=4)
    assert together(lake, "v1", "v2", at=5) is None
    with pytest.raises(UpstreamNotFinishedError, match="no epochs of v1, v2 have all of their common tables at one"):
        ViewJob(tmp_path, "top", "v1", "v2").create(5)


def test_a_step_of_the_lead_takes_the_others_along(tmp_path):
    """Under snapshot, changes that waited are replayed in steps."""
    lake = Lake(tmp_path, "a", "c")
    views = [lake.view("v1", "a"), lake.view("v2", "a")]
    begun = {**newest(lake, "v1", "v2"), "c": 0}
    ends = []
    for at in (3, 6, 9):
        lake.commit("a", at)
        lake.commit("c", at + 0.5)
        views[0].run(at + 1)
        if at != 6:
            views[1].run(at + 1)
        ends.append(newest(lake, "v1", "v2"))
    several = SeveralUpstreams(
        {name: lake.source(name) for name in begun}, since={name: Offset(n) for name, n in begun.items()}
    )

    def step(end):
        found = several.in_steps(minute(20), "v1", Offset(end))
        return {name: offset.number for name, offset in found.offsets.items()}, found.instant

    assert step(ends[1]["v1"]) == ({**ends[0], "c": 0}, minute(3)), "v2 has no epoch with the second commit"
    assert step(begun["v1"]) == ({**ends[0], "c": 0}, minute(3)), "each step moves on"
    assert step(ends[2]["v1"]) == ({**ends[2], "c": 2}, minute(9))


def test_names_of_one_table_are_compared_by_its_id(tmp_path):
    """A link leads to the same table, and a view of it is a view of that."""
    lake = Lake(tmp_path, "a")
    (tmp_path / "linked").symlink_to(tmp_path / "a")
    view = lake.view("v", "a")
    lake.commit("a", 3)
    assert together(lake, "v", "linked", at=4)["linked"] == 0
    view.run(5)
    assert together(lake, "v", "linked", at=6)["linked"] == 1


def test_a_copy_of_a_tables_files_is_refused_beside_it(tmp_path):
    """By its id it is the same table."""
    Lake(tmp_path, "a")
    shutil.copytree(tmp_path / "a", tmp_path / "copy")
    with pytest.raises(InvalidJobError, match="a and copy have one table id, .*: they are one table, or one is a copy"):
        ViewJob(tmp_path, "top", "a", "copy").create(1)


def test_a_table_of_which_each_job_has_a_log_of_its_own_is_refused(tmp_path):
    lake = Lake(tmp_path, "a")
    lake.view("v", "a")
    events = AppendOnlyUpstream(path=f"{tmp_path}/a", append_only=True).for_job("top", f"{tmp_path}/state")
    several = SeveralUpstreams({"v": lake.source("v"), "events": open_source(events)})
    with pytest.raises(InvalidJobError, match="v and events both come from .*/a, of which each job has a log"):
        several.require_comparable()


def test_a_view_that_was_rebuilt_under_another_is_told_by_name(tmp_path):
    lake = Lake(tmp_path, "a", "b")
    first = lake.view("v1", "a")
    lake.view("v2", "v1", "b", at=2)
    first.rebuild(3)
    first.run(3)
    with pytest.raises(UpstreamReplacedError, match="job v1 rebuilt its view, .*; job v2 still reads the former one"):
        together(lake, "v2", "a", at=4)


@pytest.mark.exhaustive
def test_a_log_is_not_read_without_an_end(tmp_path, monkeypatch):
    lake = Lake(tmp_path, "a")
    lake.view("v1", "a")
    second = lake.view("v2", "a")
    for at in (3, 4, 5):
        lake.commit("a", at)
        second.run(at)
    monkeypatch.setattr(view_logs, "EPOCHS_AT_ONCE", 1)
    monkeypatch.setattr(view_logs, "MOST_EPOCHS", 2)
    with pytest.raises(UpstreamError, match="the newest 2 epochs of job v2 are all later than what is looked for"):
        together(lake, "v1", "v2", at=6)


def test_a_view_whose_control_tables_are_gone_counts_as_a_table(tmp_path):
    lake = Lake(tmp_path, "a", "c")
    view = lake.view("v", "a")
    shutil.rmtree(view.job.state)
    several = SeveralUpstreams({"v": lake.source("v"), "c": lake.source("c")})
    assert not several.views
    several.require_comparable()
