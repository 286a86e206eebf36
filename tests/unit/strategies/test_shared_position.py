"""One position for all vnodes: what does not depend on what a position is."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.errors import StateError
from airflow_backfill_provider.core.scan.columns import OwnColumns
from airflow_backfill_provider.core.scan.progress import InProgress, NotStarted
from airflow_backfill_provider.strategies.no_shuffle_scan import NoShuffleScan
from airflow_backfill_provider.strategies.shared_position import shared
from airflow_backfill_provider.strategies.snapshot.scan import SnapshotScan
from tests.builders import order_of
from tests.unit.strategies.scan_states import state_of


@pytest.mark.parametrize("scan", [NoShuffleScan(order_of("long"), 3), SnapshotScan(3, OwnColumns())])
def test_each_vnode_records_the_total(scan):
    assert scan.initial(4) == state_of(NotStarted(), NotStarted(), NotStarted(), epoch=4)
    assert scan.rows_in([InProgress((1, 2), 40)] * 3) == 40
    assert scan.rows_of_one(100) == 100


def test_the_progress_that_all_vnodes_share():
    assert shared(state_of(InProgress((1,), 2), InProgress((1,), 2))) == InProgress((1,), 2)
    with pytest.raises(StateError, match="different positions for vnodes as of epoch 5.*rebuild the job"):
        shared(state_of(InProgress((1,), 2), InProgress((1,), 3)))
