"""What the pages get from a job's log."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from airflow_backfill_provider.core.epoch.barrier import Mutation, PinnedMutation
from airflow_backfill_provider.core.epoch.settings import SettingsChange
from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.job.cut_over import CutOverKind, CutOverSubject
from airflow_backfill_provider.core.job.rate_limit import PinnedRate
from airflow_backfill_provider.core.job.requester import Requester
from airflow_backfill_provider.core.status.view_difference import ComparedSide, ComparedVersions, ViewDifference
from airflow_backfill_provider.plugin.observed_job import JobReading
from airflow_backfill_provider.plugin.observer import Observation
from airflow_backfill_provider.plugin.registry import RegisteredJob
from airflow_backfill_provider.plugin.responses import (
    Change,
    ExplainedRow,
    JobRow,
    JobState,
    ShownDifference,
    epoch_points,
    logged_epochs,
)
from tests.builders import NOW, barrier_of, commit_of, settings_of
from tests.cut_overs import ONE_CHANGED
from tests.unit.stand_in import Lake

JOB = RegisteredJob(name="paid_orders", definition={}, backfill_conn_id="c", dag_ids=("d",))


def test_the_log_is_newest_first_and_marks_uncommitted_epochs():
    barriers = [barrier_of(1), barrier_of(2, injected_by=Requester(dag_id="d", run_id="r", task_id="t"))]

    newest, oldest = logged_epochs(barriers, [commit_of(barriers[0])])

    assert (newest.epoch, newest.committed_at, newest.rows, newest.dag_id, newest.run_id) == (2, None, None, "d", "r")
    assert (oldest.epoch, oldest.rows, oldest.changes, oldest.requested_by) == (1, 100, 3, "tester")


def test_an_epoch_has_its_mutations_and_its_requester():
    pinned = PinnedMutation(mutation=Mutation.THROTTLE, value=7, requested_by="vera", requested_at=NOW)

    (epoch,) = logged_epochs([barrier_of(1, mutations=(pinned,), warnings=("slow",))], [])

    assert epoch.mutations == (pinned,)
    assert epoch.warnings == ("slow",)


def test_an_epoch_says_why_it_has_its_rate_limit():
    rate = PinnedRate(asked="auto", reason="because the last epoch was fast")
    newest, oldest = logged_epochs([barrier_of(1), barrier_of(2, rate_limit=200, rate=rate)], [])

    assert (newest.rate_limit, newest.rate_limit_reason) == (200, "because the last epoch was fast")
    assert oldest.rate_limit_reason == ""


def test_the_chart_shows_committed_epochs_from_pin_to_commit():
    barriers = [barrier_of(1), barrier_of(2)]

    (point,) = epoch_points(barriers, [commit_of(barriers[0])])

    assert (point.epoch, point.rows, point.changes, point.seconds, point.work_seconds) == (1, 100, 3, 10.0, 2.0)


def test_a_change_of_the_settings_has_its_requester_and_time():
    throttled = settings_of().changed(
        SettingsChange.THROTTLE, requested_by="vera", requested_at=NOW, rate_limit=7, value=7
    )

    change = Change.of(throttled)

    assert (change.change, change.value, change.requested_by) == (SettingsChange.THROTTLE, 7, "vera")
    auto = throttled.changed(
        SettingsChange.THROTTLE, requested_by="v", requested_at=NOW, rate_limit="auto", value="auto"
    )
    assert Change.of(auto).value == "auto"


@pytest.mark.parametrize(
    ("observation", "state"),
    [
        (Observation(), JobState.UNREAD),
        (Observation(problem="broken"), JobState.UNREADABLE),
        (Observation(JobReading(token="1", created=False)), JobState.NOT_CREATED),
    ],
)
def test_a_job_without_a_summary_has_a_state(observation, state):
    row = JobRow.of(JOB, observation)

    assert (row.state, row.summary, row.warns) == (state, None, False)


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("[1", "is not a JSON list"),
        ("[1, 2]", "is not a key of the view"),
        ("x", "is not a key of the view"),
        # The view of this test has no rows, and no columns of its query.
        ("7", "has no column order_id"),
    ],
)
def test_a_question_about_a_row_that_the_view_cannot_have_is_refused(as_created: Callable[[], Lake], key, said):
    with pytest.raises(InvalidJobError, match=said):
        ExplainedRow.of(as_created().backfill, key)


def test_a_difference_is_shown_in_words_with_keys_and_without_values():
    side = ComparedSide(view_version=3, epoch=2, upstreams={"upstream": 5})
    found = ViewDifference(
        number=4,
        job="paid_orders",
        subject=CutOverSubject(kind=CutOverKind.REBUILD, incarnation="a1", definition="d"),
        sides=ComparedVersions(served=side, waiting=side),
        rows=ONE_CHANGED.model_copy(update={"added": 7}),
        requested_by="vera",
        compared_at=NOW,
    )
    shown = ShownDifference.of(found)
    assert (shown.number, shown.left, shown.compared_at) == (4, 6, NOW)
    assert shown.lines[1] == "rows: 10 now, 11 then; 7 added, 0 removed, 1 changed"
    assert shown.keys == ('changed: ["3"] in cents', 'added: ["11"]')
    assert ShownDifference.of(None) == ShownDifference()


def test_a_view_that_waits_for_an_approval_is_ready(orders: Lake):
    orders.fields["cut_over"] = "on_approval"
    orders.create()
    orders.complete()
    reading = JobReading(token="t", created=True, summary=orders.backfill.read().summary())
    assert JobRow.of(JOB, Observation(reading)).state is JobState.READY
