"""When the watchdog gives an alarm, and when it does not."""

from __future__ import annotations

import datetime as dt

import pytest

from airflow_backfill_provider.core.job.requester import Requester
from airflow_backfill_provider.core.scan.offset import HistoryPoint, Offset
from airflow_backfill_provider.core.status.alarm import AlarmKind
from airflow_backfill_provider.core.status.change_feed import ChangeFeed
from airflow_backfill_provider.core.status.watchdog import changes_needed_after, reached_point, read_up_to, watch
from tests.builders import NOW, barrier_of, commit_of, settings_of, window_of

MINUTE, HOUR, DAY = dt.timedelta(minutes=1), dt.timedelta(hours=1), dt.timedelta(days=1)


def log_of(*, epochs=5, every=HOUR, taking=5 * MINUTE, **changes):
    """Barriers in a rhythm, the last one at NOW, and their commits."""
    barriers = [
        barrier_of(epoch, upstream=window_of(epoch - 2, epoch - 1), injected_at=NOW - (epochs - epoch) * every)
        for epoch in range(1, epochs + 1)
    ]
    return barriers, [commit_of(b, committed_at=b.injected_at + taking, **changes) for b in barriers]


def feed_of(**changes):
    return ChangeFeed(**{"latest": Offset(4), "kept_for": 7 * DAY, **changes})


def alarms_of(log, after, *, settings=None, feed=None, finished=False):
    """The alarms so long after NOW."""
    return watch(
        settings=settings or settings_of(requested_at=NOW - 300 * DAY),
        barriers=log[0],
        commits=log[1],
        feed=feed or feed_of(),
        finished=finished,
        now=NOW + after,
    )


def pinned(log):
    """The log without its last commit."""
    return log[0], log[1][:-1]


# --- stalled --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("every", "after", "stalled"),
    [
        (HOUR, 3 * HOUR, False),
        (HOUR, 3 * HOUR + 6 * MINUTE, True),
        (MINUTE, 30 * MINUTE, False),
        (MINUTE, 36 * MINUTE, True),
        (DAY, 3 * DAY, False),
        (DAY, 3 * DAY + HOUR, True),
        (7 * DAY, 20 * DAY, False),
    ],
)
def test_epochs_that_stopped_coming_are_noticed_by_their_own_rhythm(every, after, stalled):
    alarms = alarms_of(log_of(every=every), after)
    assert [alarm.kind for alarm in alarms] == [AlarmKind.STALLED] * stalled


def test_the_alarm_says_what_is_wrong_and_what_to_do():
    (alarm,) = alarms_of(log_of(), 10 * HOUR)
    assert (
        alarm.message == "no epoch came for 9 h 55 min, one usually comes every 1 h 0 min, and the view is not finished"
    )
    assert alarm.remedy == "check whether the DAG is paused or its runs fail, or continue with airflow-backfill run"
    assert str(alarm) == f"{alarm.message}; {alarm.remedy}"


def test_one_outage_among_the_epochs_does_not_change_what_is_usual():
    barriers, commits = log_of()
    early = barriers[0].model_copy(update={"injected_at": NOW - 100 * DAY})
    assert alarms_of(([early, *barriers[1:]], commits), 4 * HOUR)


def in_runs(log, epochs):
    """The log with so many epochs of each run of a DAG, a minute apart; the runs keep the rhythm."""
    barriers, commits = log
    task = Requester(dag_id="d", task_id="t")
    for index, barrier in enumerate(barriers):
        first = barriers[index - index % epochs]
        at = first.injected_at + index % epochs * MINUTE
        asked = task.model_copy(update={"run_id": str(index // epochs), "map_index": index % 2})
        barriers[index] = barrier.model_copy(update={"injected_at": at, "injected_by": asked})
        commits[index] = commits[index].model_copy(update={"committed_at": at + MINUTE})
    return barriers, commits


@pytest.mark.parametrize(("after", "stalled"), [(13 * HOUR, False), (14 * HOUR, True)])
def test_epochs_of_one_run_have_the_rhythm_of_the_runs(after, stalled):
    """Six epochs in a row, and then none for six hours."""
    alarms = alarms_of(in_runs(log_of(epochs=12), 6), after)
    assert len(alarms) == stalled
    assert all("one usually comes every 6 h 0 min" in alarm.message for alarm in alarms)


@pytest.mark.parametrize(("after", "stalled"), [(23 * HOUR, False), (25 * HOUR, True)])
def test_a_run_with_all_of_the_newest_epochs_has_a_day(after, stalled):
    alarms = alarms_of(in_runs(log_of(epochs=12, every=MINUTE), 12), after)
    assert len(alarms) == stalled
    assert all("the last ones came from one DAG run" in alarm.message for alarm in alarms)


@pytest.mark.parametrize(
    ("taking", "after", "stalled"),
    [
        (5 * MINUTE, 30 * MINUTE, False),
        (5 * MINUTE, 31 * MINUTE, True),
        (HOUR, 3 * HOUR, False),
        (HOUR, 4 * HOUR, True),
    ],
)
def test_an_epoch_that_is_pinned_for_much_longer_than_usual_is_stuck(taking, after, stalled):
    alarms = alarms_of(pinned(log_of(every=2 * HOUR, taking=taking)), after)
    assert [alarm.kind for alarm in alarms] == [AlarmKind.STALLED] * stalled
    assert all("epoch 5 has been pinned for" in alarm.message for alarm in alarms)


def test_a_stuck_epoch_names_who_asked_for_it():
    (alarm,) = alarms_of(pinned(log_of()), 5 * HOUR)
    assert "usually take 5 min 0 s" in alarm.message
    assert "tester" in alarm.remedy


@pytest.mark.parametrize(("after", "stalled"), [(23 * HOUR, False), (25 * HOUR, True)])
def test_a_first_epoch_has_a_day(after, stalled):
    alarms = alarms_of(pinned(log_of(epochs=1)), after)
    assert len(alarms) == stalled
    assert all("it is the job's first" in alarm.message for alarm in alarms)


def test_epochs_in_a_row_that_read_no_row_are_noticed():
    log = log_of(snapshot_read_row_count=0)
    (alarm,) = alarms_of(log, MINUTE)
    assert (alarm.kind, "epochs 3 to 5 read no rows" in alarm.message) == (AlarmKind.STALLED, True)


@pytest.mark.parametrize("change", [{"paused": True}, {"rate_limit": 0}])
def test_epochs_that_were_not_to_read_rows_are_not_idle(change):
    """The last epochs of a job that was just resumed are of this kind."""
    barriers, commits = log_of(snapshot_read_row_count=0)
    barriers[-2] = barriers[-2].model_copy(update=change)
    assert alarms_of((barriers, commits), MINUTE) == ()


def test_two_epochs_without_a_row_may_be_a_gap_between_keys():
    barriers, commits = log_of(snapshot_read_row_count=0)
    commits[-3] = commits[-3].model_copy(update={"snapshot_read_row_count": 1})
    assert alarms_of((barriers, commits), MINUTE) == ()


@pytest.mark.parametrize("change", [{"paused": True}, {"rate_limit": 0}, {"cancelled": True}])
@pytest.mark.parametrize("log", [log_of(), pinned(log_of()), log_of(snapshot_read_row_count=0)])
def test_a_job_that_is_meant_to_stand_still_is_not_stalled(log, change):
    settings = settings_of(requested_at=NOW - 300 * DAY, **change)
    assert alarms_of(log, 90 * DAY, settings=settings) == ()


@pytest.mark.parametrize("log", [log_of(), pinned(log_of())])
def test_a_finished_job_is_not_stalled(log):
    assert alarms_of(log, 90 * DAY, finished=True) == ()


@pytest.mark.parametrize(("beyond", "late"), [(0, False), (1, True)])
@pytest.mark.parametrize(
    ("log", "limit"),
    [
        (log_of(), 3 * HOUR + 5 * MINUTE),
        (log_of(every=MINUTE, taking=MINUTE / 2), 30.5 * MINUTE),
        (pinned(log_of(taking=HOUR)), 3 * HOUR),
        (pinned(log_of()), 30 * MINUTE),
        (pinned(log_of(epochs=1)), DAY),
        (in_runs(log_of(epochs=12, every=MINUTE), 12), DAY + MINUTE),
    ],
)
def test_nothing_is_late_before_its_time_is_over(log, limit, beyond, late):
    assert len(alarms_of(log, limit + beyond * dt.timedelta(seconds=1))) == late


def test_an_alarm_about_stopped_epochs_says_if_the_last_ones_read_nothing():
    """That is the cause, and the remedy differs from that for runs that fail."""
    (alarm,) = alarms_of(log_of(snapshot_read_row_count=0), 90 * DAY)
    assert "read no rows" in alarm.message


def test_epochs_that_had_nothing_left_to_read_are_not_idle():
    assert alarms_of(log_of(snapshot_read_row_count=0, completed=True), MINUTE) == ()


@pytest.mark.parametrize("epochs", [0, 1])
def test_a_job_without_a_rhythm_is_not_stalled(epochs):
    assert alarms_of(log_of(epochs=epochs), 90 * DAY) == ()


def test_a_job_that_was_just_resumed_gets_time_for_its_next_epoch():
    log = log_of()
    resumed = settings_of(requested_at=NOW + 10 * DAY)
    assert alarms_of(log, 10 * DAY + 2 * HOUR, settings=resumed) == ()
    assert len(alarms_of(log, 10 * DAY + 4 * HOUR, settings=resumed)) == 1


# --- headroom -------------------------------------------------------------------------------------


def needed(age, **changes):
    return feed_of(needed=Offset(5), needed_since=NOW - age, **changes)


@pytest.mark.parametrize(
    ("age", "kept_for", "warned"),
    [
        (5 * DAY, 7 * DAY, False),
        (6 * DAY + HOUR, 7 * DAY, True),
        (16 * HOUR, DAY, False),
        (19 * HOUR, DAY, True),  # in the last quarter
        (29 * DAY, 30 * DAY, False),
    ],
)
def test_changes_that_will_soon_be_gone_are_warned_of(age, kept_for, warned):
    alarms = alarms_of(log_of(), MINUTE * 0, feed=needed(age, kept_for=kept_for))
    assert [alarm.kind for alarm in alarms] == [AlarmKind.HEADROOM] * warned


def test_changes_that_are_kept_for_ever_are_not_warned_of():
    """Although no calendar goes so far."""
    feed = needed(DAY, kept_for=9_999_999 * DAY)
    assert feed.headroom(NOW) == 9_999_998 * DAY
    assert alarms_of(log_of(), MINUTE * 0, feed=feed) == ()


def test_a_slow_rhythm_is_warned_earlier():
    """Three more epochs must fit in."""
    assert alarms_of(log_of(every=2 * DAY), MINUTE * 0, feed=needed(2 * DAY))
    assert not alarms_of(log_of(every=DAY), MINUTE * 0, feed=needed(2 * DAY))


def test_the_warning_says_which_changes_how_long_and_what_to_do():
    (alarm,) = alarms_of(log_of(), MINUTE * 0, feed=needed(6 * DAY + 4 * HOUR, kept_by="a, b"))
    assert alarm.message == (
        "the changes of /lake/orders from offset 5 on may be gone in 20 h 0 min: no epoch has read them, and the "
        "table keeps changes for 7 d 0 h"
    )
    assert alarm.remedy == "run an epoch before then, or keep changes longer (a, b)"
    (other,) = alarms_of(log_of(), MINUTE * 0, feed=needed(8 * DAY))
    assert other.remedy.endswith("rebuild the job, and keep changes longer"), "a source without such settings"


def test_a_source_that_keeps_changes_for_ever_says_a_hundred_years():
    feed = needed(999 * DAY, kept_for=36_500 * DAY)
    assert not alarms_of(log_of(), MINUTE * 0, feed=feed)
    assert feed.headroom(NOW) == (36_500 - 999) * DAY


GIB = 1 << 30


@pytest.mark.parametrize(
    ("kept", "left", "warned"),
    [(None, None, False), (9 * GIB, None, False), (GIB, GIB + 1, False), (GIB, GIB, True), (GIB, 0, True)],
)
def test_log_that_is_kept_for_the_job_is_warned_of_once_half_of_it_is_full(kept, left, warned):
    alarms = alarms_of(log_of(), MINUTE * 0, feed=feed_of(kept_bytes=kept, bytes_left=left))
    assert bool(alarms) is warned
    if warned:
        assert alarms[0].kind is AlarmKind.HEADROOM
        assert alarms[0].message.startswith("/lake/orders keeps 1.0 GiB of log for the job, and gives it up after ")


def test_a_table_that_keeps_changes_for_no_time_has_no_headroom():
    feed = needed(dt.timedelta(0), kept_for=dt.timedelta(0))
    (alarm,) = alarms_of(log_of(), MINUTE * 0, feed=feed)
    assert "may be gone: no epoch has read them" in alarm.message
    assert feed.headroom(NOW) == dt.timedelta(0)


@pytest.mark.parametrize(
    "feed", [needed(DAY, kept_for=None, unreadable="x = 'soon'"), feed_of(unreadable="x = 'soon'")]
)
def test_an_unreadable_retention_is_an_alarm_and_not_the_default(feed):
    """I6: also while no changes are needed, because later ones will be."""
    (alarm,) = alarms_of(log_of(), MINUTE * 0, feed=feed)
    assert alarm.kind is AlarmKind.HEADROOM
    assert alarm.message == (
        "it is unknown how long /lake/orders keeps its changes, because Delta cannot parse x = 'soon'"
    )
    assert "ALTER TABLE" in alarm.remedy
    assert feed.headroom(NOW) is None


@pytest.mark.parametrize("feed", [needed(8 * DAY), feed_of(needed=Offset(5))])
def test_an_alarm_about_changes_says_if_they_may_be_gone(feed):
    """By the clock, or because the log does not have them any more."""
    (alarm,) = alarms_of(log_of(), MINUTE * 0, feed=feed)
    assert "offset 5 on may be gone: no epoch has read them" in alarm.message
    assert "rebuild the job" in alarm.remedy
    assert feed.headroom(NOW) == dt.timedelta(0)


@pytest.mark.parametrize("change", [{"paused": True}, {"rate_limit": 0}])
def test_a_paused_job_needs_the_changes_too(change):
    settings = settings_of(**change)
    assert [a.kind for a in alarms_of(log_of(), MINUTE, settings=settings, feed=needed(8 * DAY))] == ["headroom"]


def test_a_finished_view_needs_the_changes_too():
    assert [a.kind for a in alarms_of(log_of(), MINUTE, finished=True, feed=needed(8 * DAY))] == ["headroom"]


def test_a_cancelled_job_needs_no_changes():
    assert alarms_of(log_of(), MINUTE, settings=settings_of(cancelled=True), feed=needed(8 * DAY)) == ()


def test_a_stalled_job_whose_changes_go_has_both_alarms():
    alarms = alarms_of(log_of(), 7 * DAY, feed=needed(DAY))
    assert {alarm.kind for alarm in alarms} == {AlarmKind.STALLED, AlarmKind.HEADROOM}


# --- after which offset changes are needed --------------------------------------------------------


def test_changes_are_needed_after_the_committed_epochs_also_if_one_is_pinned():
    log = log_of()
    assert read_up_to(settings_of(), *log) == Offset(4)
    assert read_up_to(settings_of(), *pinned(log)) == Offset(3)


def test_before_the_first_epoch_only_an_arrangement_needs_changes():
    assert read_up_to(settings_of(), [], []) is None
    assert read_up_to(settings_of(), *pinned(log_of(epochs=1))) is None
    assert read_up_to(settings_of(start=HistoryPoint(offset=7)), [], []) == Offset(7)


def test_an_earlier_incarnation_has_read_nothing_for_this_one():
    assert read_up_to(settings_of(incarnation="b2"), *log_of()) is None


def test_changes_that_wait_are_needed_from_an_older_version_on():
    barriers, commits = log_of(epochs=2)
    assert changes_needed_after(settings_of(), barriers, commits) == Offset(1)
    waits = barrier_of(2, upstream=window_of(0, 1), publishes=False)
    assert changes_needed_after(settings_of(), [barriers[0], waits], commits) == Offset(0)
    assert read_up_to(settings_of(), [barriers[0], waits], commits) == Offset(1)


def test_without_the_committed_barrier_the_offset_is_unknown():
    barriers, commits = log_of()
    assert read_up_to(settings_of(), barriers[:-1], commits) is None


# --- replaced -------------------------------------------------------------------------------------


@pytest.mark.parametrize("finished", [False, True])
@pytest.mark.parametrize("held", [{}, {"paused": True}, {"rate_limit": 0}])
def test_a_replaced_upstream_is_an_alarm_whatever_the_job_does(finished, held):
    """I6: if no further epoch is requested, none refuses the upstream."""
    feed = feed_of(replaced="the log ends with version 2")
    settings = settings_of(requested_at=NOW - 300 * DAY, **held)
    (alarm,) = alarms_of(log_of(), MINUTE, settings=settings, feed=feed, finished=finished)
    assert (alarm.kind, alarm.message) == (AlarmKind.REPLACED, "the log ends with version 2")
    assert "rebuild the job" in alarm.remedy
    assert alarms_of(log_of(), MINUTE, settings=settings_of(cancelled=True), feed=feed) == ()


def test_a_job_has_reached_its_newest_barrier_whether_it_is_committed_or_not():
    log = log_of(epochs=3)
    settings = settings_of()
    assert reached_point(settings, log[0]) == log[0][-1].upstream.end
    others = [barrier.model_copy(update={"incarnation": "b2"}) for barrier in log[0]]
    assert reached_point(settings, others) is None
    arranged = settings_of(start=HistoryPoint(offset=5, mark="then"))
    assert reached_point(arranged, others) == HistoryPoint(offset=5, mark="then")


def test_of_files_and_changes_that_are_needed_the_older_ones_count():
    feed = ChangeFeed(latest=Offset(9), kept_for=dt.timedelta(days=7))
    needed = feed.needing(Offset(5), NOW)
    assert needed.headroom(NOW + dt.timedelta(days=2)) == dt.timedelta(days=5)
    assert needed.needing(Offset(7), NOW + dt.timedelta(hours=1)) is needed
    assert needed.needing(Offset(3), NOW - dt.timedelta(days=1)).headroom(NOW) == dt.timedelta(days=6)
