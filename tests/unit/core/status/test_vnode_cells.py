"""The map of vnodes has a bounded number of cells, and they cover every vnode."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.scan.progress import BackfillState, Completed, InProgress, NotStarted
from airflow_backfill_provider.core.status.vnode_cells import MOST_CELLS, vnode_cells
from tests.builders import job_of, settings_of


def settings(vnode_count, strategy="arrangement"):
    return settings_of(job_of(vnode_count=vnode_count), strategy=strategy)


def test_few_vnodes_have_a_cell_each():
    state = BackfillState(epoch=1, vnodes=(Completed((9,), 30), InProgress((5,), 20), NotStarted()))

    cells = vnode_cells(settings(3), state)

    assert [(cell.first, cell.last, cell.rows, cell.position) for cell in cells] == [
        (0, 0, 30, None),
        (1, 1, 20, ("5",)),
        (2, 2, 0, None),
    ]
    assert [(cell.completed, cell.in_progress, cell.not_started) for cell in cells] == [
        (1, 0, 0),
        (0, 1, 0),
        (0, 0, 1),
    ]


@pytest.mark.parametrize("count", [1, 255, 256, 257, 8191])
def test_the_cells_cover_every_vnode_once(count):
    cells = vnode_cells(settings(count), BackfillState(epoch=1, vnodes=(InProgress((5,), 2),) * count))

    assert len(cells) <= MOST_CELLS
    assert [cell.first for cell in cells] == [0, *(cell.last + 1 for cell in cells[:-1])]
    assert cells[-1].last == count - 1
    assert sum(cell.in_progress for cell in cells) == count
    assert sum(cell.rows for cell in cells) == 2 * count


def test_a_cell_names_a_position_only_if_its_vnodes_share_it():
    vnodes = (InProgress((1,), 1), Completed(None, 5), InProgress((1,), 1), InProgress((2,), 1))

    cells = vnode_cells(settings(4), BackfillState(epoch=1, vnodes=vnodes), most=2)

    assert [cell.position for cell in cells] == [("1",), None]
    assert [cell.rows for cell in cells] == [6, 2]


def test_under_no_shuffle_rows_are_of_all_vnodes_together():
    state = BackfillState(epoch=1, vnodes=(InProgress((5,), 70),) * 8)

    cells = vnode_cells(settings(8, "no_shuffle"), state, most=4)

    assert [cell.rows for cell in cells] == [70] * 4
