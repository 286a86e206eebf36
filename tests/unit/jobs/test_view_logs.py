"""The barrier logs of views: which epochs they have, and which versions of the roots each of these has."""

from __future__ import annotations

import pytest
from deltalake import DeltaTable, write_deltalake

from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.jobs.view_logs import ViewLogs
from airflow_backfill_provider.lake.tables.view_identity import (
    FINISHED_PROPERTY,
    INCARNATION_PROPERTY,
    JOB_PROPERTY,
    STATE_PROPERTY,
)
from tests.diamonds import Lake, ViewJob, minute, row
from tests.several import shape_of_several

pytestmark = pytest.mark.slow  # whole epochs through Delta tables


@pytest.fixture(autouse=True)
def _shape():
    with shape_of_several():
        yield


def looked(lake, name, at):
    """Return the versions of the roots that each epoch of a view has, by the tables' names, newest first."""
    log = ViewLogs().of(lake.source(name))
    names = {root: source.location.rsplit("/", 1)[1] for root, source in log.roots.items()}
    return [
        ({names[root]: offset.number for root, offset in one.frontier.items()}, one.instant)
        for one in log.looked(minute(at))
    ]


def test_an_epoch_has_its_windows_ends_and_is_of_the_instant_of_the_newest(tmp_path):
    """A change of a dimension alone is seen by an epoch whose lead rests."""
    lake = Lake(tmp_path, "a", "b")
    view = lake.view("v", "a", "b")
    lake.commit("b", 3)
    view.run(4)
    first, second = ({"a": 0, "b": 0}, minute(0)), ({"a": 0, "b": 1}, minute(3))
    assert looked(lake, "v", 9) == [second, first]
    assert looked(lake, "v", 3) == [second, first]
    assert looked(lake, "v", 2.9) == [first]


def test_an_epoch_over_views_has_what_the_epochs_of_these_have(tmp_path):
    lake = Lake(tmp_path, "a", "b")
    lake.view("v1", "a")
    second = lake.view("v2", "v1", "b", at=2)
    lake.commit("a", 3)
    ViewJob(tmp_path, "v1", "a").run(4)
    lake.commit("b", 5)
    second.run(6)
    assert looked(lake, "v2", 9) == [({"a": 1, "b": 1}, minute(5)), ({"a": 0, "b": 0}, minute(0))]
    assert looked(lake, "v2", 4) == [({"a": 0, "b": 0}, minute(0))]


def test_a_version_whose_epoch_is_not_recorded_yet_has_no_frontier(tmp_path):
    """I1: a job may read what another one has just committed, before that is in its log."""
    lake = Lake(tmp_path, "a")
    lake.view("v1", "a")
    log = ViewLogs().of(lake.source("v1"))
    recorded = lake.source("v1").latest()
    assert [one.frontier for one in log.with_rows_of(recorded, minute(9))] == [{root: Offset(0) for root in log.roots}]
    write_deltalake(f"{tmp_path}/v1", row(9), mode="append")
    second = lake.view("v2", "v1", at=2)
    assert second.backfill.store.barriers()[-1].upstream.to_offset > recorded
    assert looked(lake, "v2", 9) == []


def test_a_circle_of_views_has_no_epochs(tmp_path):
    """Somebody may copy the properties of a view to the table that it reads."""
    lake = Lake(tmp_path, "a")
    view = lake.view("v", "a")
    said = {JOB_PROPERTY: "v", FINISHED_PROPERTY: "true", STATE_PROPERTY: view.job.state}
    said[INCARNATION_PROPERTY] = view.backfill.settings().incarnation
    DeltaTable(f"{tmp_path}/a").alter.set_table_properties(said, raise_if_not_exists=False)
    log = ViewLogs().of(lake.source("v"))
    assert (list(log.looked(minute(9))), log.roots) == ([], {})


def test_a_table_and_a_view_without_control_tables_have_no_log(tmp_path):
    lake = Lake(tmp_path, "a")
    assert ViewLogs().of(lake.source("a")) is None
    ViewJob(tmp_path, "v", "a").create(1)
    assert ViewLogs().of(lake.source("v")) is None, "it is not finished"
