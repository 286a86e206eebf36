"""The map of vnodes: neighbours with equal progress are one entry."""

from __future__ import annotations

from airflow_backfill_provider.core.scan.offset import HistoryPoint
from airflow_backfill_provider.core.scan.progress import BackfillState, Completed, InProgress, NotStarted
from airflow_backfill_provider.core.status.vnode_map import ALMOST_DONE, vnode_map
from tests.builders import job_of, settings_of


def map_of(*vnodes, rows=400, restrict_to=None, **settings):
    made = settings_of(job_of(vnode_count=len(vnodes), restrict_to=restrict_to or {}), **settings)
    found = vnode_map(made, BackfillState(epoch=1, vnodes=vnodes), rows)
    return [(run.first, run.last, run.state, run.rows, run.position, run.progress) for run in found]


def test_neighbours_with_equal_progress_are_one_cell_with_the_rows_of_all():
    vnodes = (
        Completed((1,), 100),
        Completed((5,), 50),
        InProgress((3,), 10),
        InProgress((4,), 20),
        NotStarted(),
        NotStarted(),
        InProgress((4,), 2000),
        Completed(None, 0),
    )
    each = 2180 / 8
    assert map_of(*vnodes, rows=2180, strategy="arrangement", start=HistoryPoint(offset=0)) == [
        (0, 1, "completed", 150, None, 1.0),
        (2, 2, "in_progress", 10, ("3",), 10 / each),
        (3, 3, "in_progress", 20, ("4",), 20 / each),
        (4, 5, "not_started", 0, None, 0.0),
        (6, 6, "in_progress", 2000, ("4",), ALMOST_DONE),
        (7, 7, "completed", 0, None, 1.0),
    ]


def test_vnodes_that_share_a_position_have_the_rows_that_each_stands_for():
    assert map_of(*[InProgress((3,), 100)] * 4) == [(0, 3, "in_progress", 100, ("3",), 0.25)]


def test_a_vnode_of_a_part_of_the_upstream_is_measured_by_the_vnodes_that_the_job_is_about():
    vnodes = (InProgress((3,), 50), NotStarted(), Completed(None, 0), Completed(None, 0))
    (begun, *_) = map_of(*vnodes, restrict_to={"vnodes": [0, 1]}, strategy="arrangement", start=HistoryPoint(offset=0))
    assert begun[-1] == 50 / 200
