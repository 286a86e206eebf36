"""``change``: another query for a finished view, with its class and its cost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from airflow_backfill_provider.lake.log.delta_log import DeltaLog
from tests.unit.cli.conftest import Job, WatchedEngine, fails

pytestmark = pytest.mark.slow  # whole epochs through Delta tables

FILTERED = "SELECT order_id, amount FROM upstream WHERE amount > 3"


@pytest.fixture
def served(created: Job, engine: WatchedEngine) -> Job:
    """The job, with a finished view."""
    assert created("run", "--until-finished").exit_code == 0
    engine.starts = 0
    engine.executed.clear()
    return created


def versions(folder: Path) -> dict[str, int]:
    """Return the version of each table below a folder."""
    tables = [log.parent for log in folder.rglob("_delta_log")]
    return {str(table): DeltaLog(str(table)).newest().version for table in tables}


def test_a_dry_run_shows_class_and_cost_and_writes_nothing_anywhere(served: Job, engine: WatchedEngine, tmp_path: Path):
    served.write(query=FILTERED)
    before = versions(served.file.parent)
    done = served("change", "--dry-run")
    assert done.output.splitlines()[:2] == [
        "small_orders: class: filter changed (the condition was TRUE and is amount > 3)",
        "small_orders: cost: the next epoch reads the used columns of 1,000 rows of the upstream, without a rate "
        "limit, and writes only the rows that leave the view or come to it, in one commit; if the condition uses a "
        "column that the upstream did not have at the last epoch, it computes the whole view",
    ]
    assert (done.exit_code, engine.starts, versions(served.file.parent)) == (0, 0, before)
    assert served("plan").output == done.output
    assert json.loads(served("plan", "--json").output)["change"] == {
        "class": "filter",
        "reason": "the condition was TRUE and is amount > 3",
        "needs_rebuild": False,
        "why_rebuild": "",
        "upstream_rows": 1000,
    }


def test_the_next_epoch_carries_a_change_out(served: Job, engine: WatchedEngine):
    served.write(query=FILTERED)
    fails(served("run"), "with another query", "airflow-backfill change")
    done = served("change")
    assert done.output.splitlines()[-1] == (
        "small_orders: the definition is changed; the next epoch brings the view to the new query, in one commit"
    )
    assert served("run").exit_code == 0
    (epoch,) = engine.executed
    barrier = served.backfill.store.pinned(epoch)
    assert barrier.filter_change is not None
    assert served("change").output.splitlines()[-1] == "small_orders: the definition is in force"


def test_what_only_a_rebuild_can_change_is_refused(served: Job):
    served.write(query="SELECT amount, count(*) AS orders FROM upstream GROUP BY amount")
    shown = served("change", "--dry-run")
    assert "class: everything (the view is of another kind: its shape was row and would be group)" in shown.output
    assert "cost: a rebuild, which reads and writes 1,000 rows of the upstream" in shown.output
    fails(served("change"), "its shape was row and would be group", "rebuild --keep-serving")


def test_another_column_is_told_with_its_cost_and_the_alternative(served: Job):
    served.write(query="SELECT order_id FROM upstream")
    shown = served("change", "--dry-run")
    assert "class: columns dropped (the query no longer has the column amount)" in shown.output
    assert "writes the whole view with its new columns, in one commit and without a rate limit" in shown.output
    assert "alternative: airflow-backfill rebuild --keep-serving" in shown.output


def test_a_view_that_is_not_finished_is_not_changed(created: Job):
    created.write(query=FILTERED)
    fails(created("change", "--dry-run"), "is not finished", "finish it first, or rebuild")
