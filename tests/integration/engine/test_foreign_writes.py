"""A view that anything but the job wrote to is refused; maintenance is accepted (I6)."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core import errors
from airflow_backfill_provider.core.epoch import crash_points
from airflow_backfill_provider.core.epoch.crash_points import CrashPoint
from airflow_backfill_provider.jobs import mutations
from tests.integration.engine.lakehouse import Lakehouse

pytestmark = pytest.mark.spark


def test_view_written_by_another_writer(numbers: Lakehouse) -> None:
    """The epoch refuses the view before it writes anything."""
    numbers.create(rate_limit=5)
    numbers.epoch()
    numbers.sql("DELETE FROM {view} WHERE id = 1")
    with pytest.raises(errors.MaterializedViewError, match="only the job may write"):
        numbers.epoch()
    assert {row["id"] for row in numbers.view().collect()} == {0, 2, 3, 4}


@pytest.mark.exhaustive
def test_view_restored_by_another_writer(numbers: Lakehouse) -> None:
    numbers.create(rate_limit=5)
    numbers.epoch()
    numbers.sql("RESTORE TABLE {view} TO VERSION AS OF 0")
    with pytest.raises(errors.MaterializedViewError, match=r"\(RESTORE\)"):
        numbers.epoch()


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("moment", "committed"),
    [
        (CrashPoint.BEFORE_SNAPSHOT_COMMIT, 1),
        (CrashPoint.BEFORE_STATE_COMMIT, 2),
    ],
)
def test_view_written_by_another_writer_while_an_epoch_runs(
    numbers: Lakehouse, moment: CrashPoint, committed: int
) -> None:
    """I6: the epoch finds a write between two of its writes. The next epoch finds one after this one's last check."""
    numbers.create(rate_limit=3)
    numbers.epoch()

    def write(point: CrashPoint) -> None:
        if point == moment:
            crash_points.install(None)
            numbers.sql("UPDATE {view} SET name = 'foreign' WHERE id = 1")

    crash_points.install(write)
    with pytest.raises(errors.MaterializedViewError, match=r"\(UPDATE\) was not written by job orders_view"):
        numbers.finish()
    assert len(numbers.backfill.store.commits()) == committed
    # The key lies in one of the vnodes and is still written once.
    mutations.repair_job(store=numbers.backfill.store, requested_by="tester", keys=[1], vnodes=["0-3"])
    numbers.finish()
    numbers.assert_equals_query("SELECT * FROM {upstream}")


@pytest.mark.exhaustive
def test_maintenance_of_the_view_is_accepted(numbers: Lakehouse) -> None:
    numbers.create(rate_limit=5)
    numbers.epoch()
    numbers.sql("OPTIMIZE {view}")
    numbers.sql("ALTER TABLE {view} SET TBLPROPERTIES ('team' = 'me')")
    numbers.finish()
    numbers.assert_equals_query("SELECT * FROM {upstream}")
