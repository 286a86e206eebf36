"""The status of a job: progress, speed, time left, lag."""

from __future__ import annotations

import datetime as dt

import pytest

from airflow_backfill_provider.core.epoch.repair import PARTIAL_REPAIR
from airflow_backfill_provider.core.job.rate_limit import PinnedRate
from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.core.scan.progress import BackfillState, Completed, InProgress, NotStarted
from airflow_backfill_provider.core.status.alarm import AlarmKind
from airflow_backfill_provider.core.status.change_feed import ChangeFeed
from airflow_backfill_provider.core.status.job_condition import JobCondition
from airflow_backfill_provider.core.status.job_status import JobStatus, job_status, job_summary, progress_of
from airflow_backfill_provider.core.status.speed import RECENT_EPOCHS
from airflow_backfill_provider.core.status.verification import Verification
from airflow_backfill_provider.core.status.verified_state import VerifiedState
from airflow_backfill_provider.core.status.vnode_map import ALMOST_DONE
from tests.builders import (
    NOW,
    barrier_of,
    commit_of,
    compared_of,
    pinned_verification_of,
    settings_of,
    window_of,
)


def status_of(
    progress=None,
    barriers=(),
    commits=(),
    *,
    settings=None,
    latest=0,
    vnodes=4,
    now=None,
    verified=None,
    verification_waits=False,
    lost_view="",
    **feed,
) -> JobStatus:
    return job_status(
        settings=settings or settings_of(),
        state=BackfillState(epoch=len(commits), vnodes=(progress or NotStarted(),) * vnodes),
        barriers=barriers,
        commits=commits,
        feed=ChangeFeed(latest=Offset(latest), kept_for=dt.timedelta(days=7), **feed),
        now=now or (commits[-1].committed_at if commits else NOW),
        verified=verified,
        verification_waits=verification_waits,
        lost_view=lost_view,
    )


def running(epochs, *, rows=1000, **commit):
    """Barriers and commits of so many epochs, a minute apart, 100 rows in ten seconds each."""
    barriers = [barrier_of(e, upstream=window_of(e - 2, e - 1, row_count=rows)) for e in range(1, epochs + 1)]
    return barriers, [commit_of(barrier, **commit) for barrier in barriers]


def test_a_job_that_was_only_created():
    status = status_of(latest=6)
    assert (status.epoch, status.pinned_epoch, status.finished) == (0, None, False)
    assert (status.rows_read, status.rows_estimated, status.progress) == (0, 0, 0.0)
    assert (status.rows_per_second, status.eta_seconds, status.watermark) == (None, None, None)
    assert (status.upstream_version, status.oldest_rows_version) == (None, None)
    assert status.lag_versions == 7, "versions 0 to 6 are not in the view yet"
    assert (status.vnodes.total, status.vnodes.not_started) == (4, 4)


def test_a_running_job():
    barriers, commits = running(3)
    status = status_of(InProgress((9,), 300), barriers, commits, latest=7)
    assert (status.epoch, status.pinned_epoch) == (3, None)
    assert (status.rows_read, status.rows_estimated, status.progress) == (300, 1000, 0.3)
    assert status.rows_per_second == pytest.approx(300 / 30)
    # each hundred rows take a minute, fifty seconds of which are a wait
    assert status.eta_seconds == pytest.approx(7 * 60)
    assert (status.upstream_version.number, status.oldest_rows_version.number, status.lag_versions) == (2, 2, 5)
    assert status.vnodes.in_progress == 4
    assert status.watermark is None, "docs/concepts/rules.md#the-watermark-waits-for-the-end"


def test_a_job_whose_changes_wait_has_rows_of_several_versions():
    barriers, commits = running(3)
    barriers[-1] = barriers[-1].model_copy(update={"publishes": False})
    status = status_of(InProgress((9,), 300), barriers, commits, latest=7)
    assert (status.upstream_version.number, status.oldest_rows_version.number, status.lag_versions) == (2, 1, 5)


def test_a_finished_job():
    barriers, commits = running(3)
    commits[-1] = commit_of(barriers[-1], completed=True)
    status = status_of(Completed((9,), 1000), barriers, commits, latest=2)
    assert (status.finished, status.progress, status.eta_seconds) == (True, 1.0, 0.0)
    assert (status.lag_versions, status.watermark) == (0, NOW)
    assert status.vnodes.completed == 4


def test_a_finished_view_has_read_all_of_its_snapshot_also_if_rows_came_later():
    """It does not say finished with 800 of 1,000 rows: the others came as changes."""
    barriers, commits = running(3, completed=True)
    status = status_of(Completed((9,), 800), barriers, commits, latest=2)
    assert (status.finished, status.rows_read, status.rows_estimated) == (True, 800, 800)


def test_a_view_that_is_gone_is_neither_finished_nor_verified():
    """I6: control tables say how far a backfill is, and not whether anybody deleted its view."""
    barriers, commits = running(2, rows=200, completed=True, state_epoch=2)
    verified = VerifiedState.of(Verification(pinned=pinned_verification_of(), compared=(compared_of(0, 3),)))
    seen = {"verified": verified, "lost_view": "materialized_view: the view of job paid_orders is gone from /lake/view"}
    status = status_of(Completed((9,), 50), barriers, commits, **seen)
    assert (status.finished, status.verified, status.watermark) == (False, None, None)
    assert status.progress < 1
    assert [alarm.kind for alarm in status.alarms] == [AlarmKind.VIEW_LOST]
    assert "is gone from /lake/view; restore it" in status.warnings[0]


@pytest.mark.parametrize(
    ("rows_read", "estimate", "is_known"), [(999_999, 1_000_000, True), (1000, 1000, False), (5000, 1000, False)]
)
def test_progress_shows_less_than_all_until_it_is_done(rows_read, estimate, is_known):
    """docs/concepts/rules.md#progress-stays-below-the-end: above the estimate it shows 99.9 % until done."""
    barriers, commits = running(1, rows=estimate)
    status = status_of(InProgress((9,), rows_read), barriers, commits)
    assert status.progress == 0.999
    assert status.rows_estimated == max(rows_read, estimate)
    assert (status.eta_seconds is not None) is is_known, "above the estimate it is unknown what is left"


def test_a_state_of_a_later_epoch_than_the_log_is_not_finished_yet():
    """The state says Completed, the epoch's commit is not in the log: a crash in between, repaired by running again."""
    barriers, commits = running(2)
    status = status_of(Completed((9,), 1000), barriers, commits[:1])
    assert not status.finished
    assert status.progress == 0.999
    assert (status.epoch, status.pinned_epoch) == (1, 2)


def test_a_replay_has_a_number_until_the_view_is_finished():
    barriers, commits = running(2)
    barriers[-1] = barriers[-1].model_copy(update={"replay": 4})
    assert status_of(InProgress((9,), 1000), barriers, commits).replay_epoch == 4
    commits[-1] = commit_of(barriers[-1], completed=True)
    assert status_of(Completed((9,), 1000), barriers, commits).replay_epoch == 0


def test_an_empty_upstream_that_completed_is_all_of_it():
    """docs/concepts/rules.md#no-position-is-not-the-null-key."""
    barriers, commits = running(1, rows=0, completed=True, snapshot_read_row_count=0)
    status = status_of(Completed(None, 0), barriers, commits)
    assert (status.progress, status.rows_estimated, status.eta_seconds) == (1.0, 0, 0.0)


def test_a_pinned_epoch_is_in_the_status_before_it_is_committed():
    barriers, commits = running(3)
    status = status_of(InProgress((9,), 200), barriers, commits[:2], latest=9)
    assert (status.epoch, status.pinned_epoch) == (2, 3)
    assert (status.upstream_version.number, status.lag_versions) == (1, 8)


@pytest.mark.parametrize("change", [{"paused": True}, {"rate_limit": 0}, {"cancelled": True}])
def test_a_job_that_reads_nothing_has_no_estimated_end(change):
    barriers, commits = running(2)
    settings = settings_of(**change)
    status = status_of(InProgress((9,), 200), barriers, commits, settings=settings)
    assert status.eta_seconds is None
    assert status.rows_per_second is not None
    assert (status.paused, status.rate_limit, status.cancelled) == (
        settings.paused,
        settings.rate_limit,
        settings.cancelled,
    )


def test_auto_shows_what_the_newest_barrier_has_and_why():
    barriers, commits = running(2)
    auto = settings_of(rate_limit="auto")
    found = status_of(InProgress((9,), 200), barriers, commits, settings=auto)
    assert (found.rate_limit, found.effective_rate_limit, found.rate_limit_reason) == ("auto", None, "")
    barriers[-1] = barriers[-1].model_copy(update={"rate": PinnedRate(asked="auto", reason="because"), "rate_limit": 7})
    found = status_of(InProgress((9,), 200), barriers, commits, settings=auto)
    assert (found.rate_limit, found.effective_rate_limit, found.rate_limit_reason) == ("auto", 7, "because")
    assert (found.target_epoch_seconds, found.max_rows_per_second) == (60, None)


def test_the_speed_is_that_of_the_newest_epochs_that_read_anything():
    barriers, commits = running(RECENT_EPOCHS + 5)
    slow = [commit.model_copy(update={"snapshot_read_row_count": 1}) for commit in commits[:5]]
    idle = commits[-1].model_copy(update={"snapshot_read_row_count": 0})
    status = status_of(InProgress((9,), 200), barriers, [*slow, *commits[5:-1], idle])
    assert status.rows_per_second == pytest.approx((1 + 9 * 100) / (10 * 10))


def test_a_job_that_read_no_row_has_no_speed():
    barriers, commits = running(2, snapshot_read_row_count=0)
    status = status_of(InProgress((9,), 0), barriers, commits)
    assert (status.rows_per_second, status.eta_seconds) == (None, None)


def test_a_log_that_begins_later_gives_no_wrong_speed():
    barriers, commits = running(3)
    assert status_of(InProgress((9,), 300), barriers[1:], commits).rows_per_second == pytest.approx(200 / 20)
    assert status_of(InProgress((9,), 300), [], commits).rows_per_second is None


def test_a_clock_that_went_back_gives_no_negative_speed():
    barriers, commits = running(1)
    early = commits[0].model_copy(update={"committed_at": NOW - dt.timedelta(days=1)})
    assert status_of(InProgress((9,), 100), barriers, [early]).rows_per_second is None


def test_what_an_earlier_incarnation_did_does_not_count():
    barriers, commits = running(3, completed=True)
    status = status_of(None, barriers, commits, settings=settings_of(incarnation="b2", base_epoch=3), latest=4)
    assert (status.epoch, status.pinned_epoch, status.finished) == (3, None, False)
    assert (status.rows_estimated, status.rows_per_second, status.upstream_version) == (0, None, None)


def test_the_planners_warnings_are_those_of_the_newest_epoch():
    barriers, commits = running(2)
    barriers[0] = barrier_of(1, warnings=("old",))
    assert status_of(InProgress((9,), 1), barriers, commits).warnings == ()
    barriers[1] = barrier_of(2, warnings=("new",))
    assert status_of(InProgress((9,), 1), barriers, commits).warnings == ("new",)


def test_the_planners_warnings_are_there_as_soon_as_an_epoch_is_pinned():
    barriers, commits = running(2)
    barriers[1] = barrier_of(2, warnings=("new",))
    assert status_of(InProgress((9,), 1), barriers, commits[:1]).warnings == ("new",)


@pytest.mark.parametrize(
    ("epoch", "different", "warnings"),
    [
        pytest.param(2, (), ("other",), id="since"),
        pytest.param(1, (), (PARTIAL_REPAIR, "other"), id="before the repair"),
        pytest.param(2, ((1, "7"),), (PARTIAL_REPAIR, "other"), id="the view differs"),
    ],
)
def test_nobody_is_told_to_verify_a_view_that_is_known_to_be_right(epoch, different, warnings):
    barriers, commits = running(2, completed=True)
    barriers[1] = barrier_of(2, warnings=(PARTIAL_REPAIR, "other"))
    pinned = pinned_verification_of(epoch=epoch, steps=((0, 3),))
    verified = VerifiedState.of(Verification(pinned, (compared_of(0, 3, *different),)))
    assert status_of(Completed(None, 1), barriers, commits, verified=verified).warnings == warnings


def test_a_log_of_a_later_epoch_than_the_state_is_not_finished():
    """I6: the view is complete only if the state says so of every vnode."""
    barriers, commits = running(2, completed=True)
    status = status_of(InProgress((9,), 300), barriers, commits)
    assert (status.finished, status.watermark) == (False, None)


def test_a_clock_that_stands_still_gives_no_speed():
    barriers, commits = running(1)
    still = commits[0].model_copy(update={"committed_at": barriers[0].injected_at})
    assert status_of(InProgress((9,), 100), barriers, [still]).rows_per_second is None


def test_commits_of_an_earlier_incarnation_do_not_count():
    barriers, commits = running(3)
    rebuilt = settings_of(incarnation="b2", base_epoch=1)
    ours = [barrier.model_copy(update={"incarnation": "b2"}) for barrier in barriers[1:2]]
    status = status_of(InProgress((9,), 1), [barriers[0], *ours, barriers[2]], commits, settings=rebuilt)
    assert (status.epoch, status.pinned_epoch, status.committed_at) == (1, 2, None)


def test_more_rows_than_estimated_are_almost_all():
    assert progress_of(5, 0, finished=False) == ALMOST_DONE
    assert progress_of(0, 0, finished=False) == 0.0


def test_the_status_has_the_result_of_a_verification_as_it_was_read():
    assert (status_of().verified, status_of().verification_waits) == (None, False)
    pinned = pinned_verification_of(steps=((0, 3),))
    verified = VerifiedState.of(Verification(pinned, (compared_of(0, 3, (1, "7")),)))
    status = status_of(verified=verified, verification_waits=True)
    assert (status.verified, status.verification_waits) == (verified, True)


def test_an_upstream_that_went_back_gives_no_negative_lag():
    barriers, commits = running(5)
    status = status_of(InProgress((9,), 1), barriers, commits, latest=1, unread_since=NOW)
    assert (status.lag_versions, status.behind_since) == (0, None)


# --- lag and headroom -----------------------------------------------------------------------------


def test_lag_is_also_a_time_the_age_of_the_oldest_version_that_the_view_lacks():
    barriers, commits = running(2)
    later = NOW + dt.timedelta(hours=5)
    status = status_of(InProgress((9,), 1), barriers, commits, latest=4, now=later, unread_since=NOW)
    assert (status.lag_versions, status.lag_seconds) == (3, 5 * 3600)
    assert status.behind_since == NOW


@pytest.mark.parametrize(
    ("barriers", "latest", "unread_since", "expected"),
    [
        (0, 3, None, None),  # the view has nothing yet, so nothing is late
        (0, 3, NOW - dt.timedelta(days=1), None),
        (2, 1, None, 0.0),
        (2, 9, None, None),  # the log does not go back so far
        (2, 9, NOW + dt.timedelta(days=1), 0.0),  # another machine's clock
    ],
)
def test_lag_that_is_zero_or_unknown(barriers, latest, unread_since, expected):
    pinned, commits = running(barriers)
    status = status_of(InProgress((9,), 1), pinned, commits, latest=latest, unread_since=unread_since)
    assert status.lag_seconds == expected


@pytest.mark.parametrize(("days", "hours"), [(0, 7 * 24), (6.5, 12), (8, 0)])
def test_headroom_is_a_number_of_hours(days, hours):
    barriers, commits = running(2)
    now = NOW + dt.timedelta(days=days)
    needed = {"needed": Offset(2), "needed_since": NOW}
    assert status_of(InProgress((9,), 1), barriers, commits, latest=2, now=now, **needed).headroom_hours == hours


def test_no_headroom_where_nothing_is_needed():
    barriers, commits = running(2)
    assert status_of(InProgress((9,), 1), barriers, commits, latest=1).headroom_hours is None


def test_alarms_come_with_their_kind_and_among_the_warnings():
    barriers, commits = running(2)
    barriers[1] = barriers[1].model_copy(update={"warnings": ("of the planner",)})
    status = status_of(InProgress((9,), 1), barriers, commits, now=NOW + dt.timedelta(days=2))
    assert [alarm.kind for alarm in status.alarms] == [AlarmKind.STALLED]
    assert status.warnings == ("of the planner", str(status.alarms[0]))
    assert status.model_dump(mode="json")["alarms"][0]["kind"] == "stalled"


# --- finished, or why not -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pinned", "completed", "condition"), [(True, False, JobCondition.RUNNING), (False, True, JobCondition.FINISHED)]
)
def test_a_status_says_whether_the_job_is_finished_and_when_its_newest_epochs_were(pinned, completed, condition):
    barriers, commits = running(3)
    commits[1] = commit_of(barriers[1], completed=completed)
    commits[2] = commit_of(barriers[2], completed=completed)
    progress = Completed((9,), 1000) if completed else InProgress((9,), 300)

    status = status_of(progress, barriers, commits[: 2 if pinned else 3])

    assert status.condition is condition
    assert status.pinned_at == (barriers[2].injected_at if pinned else None)
    assert status.committed_at == commits[1 if pinned else 2].committed_at


def test_the_summary_is_the_status_without_its_maps():
    barriers, commits = running(3)
    seen = {
        "settings": settings_of(),
        "state": BackfillState(epoch=3, vnodes=(InProgress((9,), 300),) * 4),
        "barriers": barriers,
        "commits": commits,
        "feed": ChangeFeed(latest=Offset(2), kept_for=dt.timedelta(days=7)),
        "now": NOW,
    }

    assert job_summary(**seen).model_dump() == job_status(**seen).model_dump(exclude={"vnode_map", "splits"})
