"""``diff`` and ``approve``: what waits for an approval, on the command line."""

from __future__ import annotations

import json

import pytest

from airflow_backfill_provider.core.epoch.settings import SettingsChange
from tests.unit.cli.conftest import Job, WatchedEngine, append, fails, said

pytestmark = pytest.mark.slow  # whole epochs through Delta tables

FILTERED = "SELECT order_id, amount FROM upstream WHERE amount > 3"
ROWS = "small_orders: rows: 10 now, 11 then; 1 added, 0 removed, 1 changed"


def status(job: Job):
    return json.loads(job("status", "--json").stdout)


def test_a_rebuild_waits_until_somebody_has_seen_the_difference_and_approved_it(gated: Job, engine: WatchedEngine):
    gated.write(vnode_count=2)
    fails(gated("diff"), "nothing waits for an approval")
    said(gated, "rebuild", "--keep-serving")
    fails(gated("diff"), "the rebuild is not complete yet")
    ran = said(gated, "run", "--until-finished")
    assert "the rebuild is ready since" in ran[-1]
    assert ran[-1].endswith("see airflow-backfill diff, and approve it with airflow-backfill approve")
    assert "rebuild     ready, waits for an approval, 100.0 %" in "\n".join(said(gated, "status"))
    assert (status(gated)["finished"], status(gated)["rebuild"]["condition"]) == (True, "ready")
    fails(gated("approve"), "no difference of the rebuild is recorded", "look at it first")
    fails(gated("diff", "--recorded"), "no difference of what waits is recorded")
    shown = said(gated, "diff")
    assert shown[0].startswith("small_orders: difference 1: the rebuild (version ")
    assert shown[1:] == [
        ROWS,
        "small_orders: changed columns: cents in 1",
        '  changed: ["3"] in cents',
        '  added: ["11"]',
    ]
    engine.starts = 0
    assert said(gated, "diff", "--recorded") == shown
    assert said(gated, "approve", "--dry-run") == shown
    assert gated.backfill.settings().approved is None
    assert said(gated, "approve")[-1] == "small_orders: approved; run the job to let the rebuild go live"
    assert engine.starts == 0
    fails(gated("approve"), "nothing waits for an approval; the newest approval is by")
    append(gated.backfill.job.upstream.location, [5000])
    assert "has taken the place of the view" in said(gated, "run", "--until-finished")[-1]
    assert status(gated)["cut_over"] is None


@pytest.mark.exhaustive
def test_a_change_waits_and_an_approval_makes_it(gated: Job, engine: WatchedEngine):
    gated.write(query=FILTERED)
    assert said(gated, "change", "--dry-run")[-1].startswith("small_orders: approval: the change waits until somebody")
    assert gated.backfill.settings().proposed is None
    assert said(gated, "change")[-1] == (
        "small_orders: the change waits for an approval, and the view stays as it is; see airflow-backfill diff, and "
        "approve it with airflow-backfill approve"
    )
    said(gated, "run")
    assert gated.backfill.settings().job["query"] != FILTERED
    said(gated, "diff")
    assert said(gated, "revert")[-1] == "small_orders: the change is given up; its view stays as it is"
    said(gated, "change")
    fails(gated("approve", "--difference", "1"), "is of another proposal than the one that waits now")
    fails(gated("approve", "--difference", "7"), "no difference 7 of the changed query is recorded")
    said(gated, "diff")
    said(gated, "approve", "--difference", "2")
    assert gated.backfill.settings().change is SettingsChange.CHANGE
    said(gated, "run")
    assert gated.backfill.store.pinned(engine.executed[-1]).filter_change is not None


def test_the_former_definition_withdraws_a_change(gated: Job):
    former = gated.definition["query"]
    gated.write(query=FILTERED)
    said(gated, "change")
    gated.write(query=former, cut_over="auto")
    assert said(gated, "change")[-1] == (
        "small_orders: the definition stays as it is; the change that waited for an approval is given up"
    )
    assert said(gated, "change")[-1] == "small_orders: the definition is in force"


def test_a_first_backfill_stops_ready_and_goes_live_after_its_approval(job: Job):
    job.write(cut_over="on_approval")
    said(job, "create")
    ran = said(job, "run", "--until-finished")
    assert "the backfill is ready since" in ran[-1]
    assert said(job, "status")[0] == "job         small_orders (no_shuffle), ready, waits for an approval"
    assert said(job, "diff")[0].endswith("no view serves yet")
    said(job, "approve")
    assert "finished as of epoch" in said(job, "run", "--until-finished")[-1]
    assert status(job)["condition"] == "finished"
