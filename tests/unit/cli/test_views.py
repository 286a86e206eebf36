"""What is drawn on a terminal and written to a log."""

from __future__ import annotations

import datetime as dt
import io

import pytest
from rich.console import Console

from airflow_backfill_provider.cli.views import LineView, LiveView, progress_view, show_status, status_line
from airflow_backfill_provider.core.epoch.unit_work import UnitWork
from airflow_backfill_provider.core.scan.offset import HistoryPoint, Offset
from airflow_backfill_provider.core.scan.progress import BackfillState, InProgress, NotStarted
from airflow_backfill_provider.core.status.change_feed import ChangeFeed
from airflow_backfill_provider.core.status.job_status import job_status
from airflow_backfill_provider.core.status.recent_work import recent_work
from tests.builders import NOW, barrier_of, commit_of, settings_of


def terminal() -> Console:
    return Console(file=io.StringIO(), force_terminal=True, width=100, _environ={"TERM": "xterm"})


def late_status(hours=165):
    """A job whose first epoch was committed at version 0, so many hours after the upstream's version 1."""
    barrier = barrier_of()
    return job_status(
        settings=settings_of(),
        state=BackfillState(epoch=1, vnodes=(InProgress((9,), 100),)),
        barriers=[barrier],
        commits=[commit_of(barrier)],
        feed=ChangeFeed(
            latest=Offset(1),
            kept_for=dt.timedelta(days=7),
            unread_since=NOW,
            needed=Offset(1),
            needed_since=NOW,
        ),
        now=NOW + dt.timedelta(hours=hours),
    )


def test_a_lag_is_counted_in_the_upstream_s_own_unit():
    job = {"upstream": {"postgres": {"connection": "shop", "table": "public.orders", "key": ["id"]}}}
    settings = settings_of(start=HistoryPoint(offset=Offset(500)))
    settings = settings.model_copy(update={"job": {**settings.job, **job}})
    status = job_status(
        settings=settings,
        state=BackfillState(epoch=0, vnodes=(NotStarted(),)),
        barriers=[],
        commits=[],
        feed=ChangeFeed(latest=Offset(2_000), kept_for=None, kept_bytes=3 << 20, bytes_left=5 << 30),
        now=NOW,
    )
    console = Console(file=io.StringIO(), width=200)
    show_status(status, console)
    assert "kept log    3.0 MiB, 5.0 GiB left" in console.file.getvalue()
    assert "view at none yet, newest is position 2000 (lag 1.5 KiB)" in console.file.getvalue()


@pytest.mark.parametrize(("number", "said"), [(4, "of at most 10"), (12, "which takes all changes that are left")])
def test_the_status_of_a_replay_says_when_it_ends(number, said):
    console = Console(file=io.StringIO(), width=200)
    show_status(late_status().model_copy(update={"replay_epoch": number}), console)
    assert f"replay      epoch {number} {said}" in console.file.getvalue()


def test_a_status_says_what_the_newest_epoch_did_with_units_and_is_silent_for_rows():
    console = Console(file=io.StringIO(), width=200)
    show_status(late_status(), console)
    assert "work" not in console.file.getvalue()
    barrier = barrier_of()
    done = UnitWork(technique="slice", units=12, rows_read=1_000)
    work = recent_work([barrier], [commit_of(barrier, work=done)])
    show_status(late_status().model_copy(update={"work": work}), console)
    assert "work        epoch 1 wrote 12 units by slice, 1,000 rows read again" in console.file.getvalue()


def test_the_view_suits_the_output():
    assert isinstance(progress_view(terminal()), LiveView)
    assert isinstance(progress_view(Console(file=io.StringIO())), LineView)


def test_the_bar_shows_rows_percent_epoch_and_lag(created):
    assert created("run").exit_code == 0
    console = terminal()
    with progress_view(console) as view:
        view.show(created.backfill.status(), "epoch 2 runs")
        view.say("a line that stays")
    drawn = console.file.getvalue()
    for part in ("small_orders", "30.0 %", "300 of 1,000 rows", "rows/s", "ETA", "epoch 1", "lag 0 versions"):
        assert part in drawn
    assert "a line that stays" in drawn


def test_a_paused_bar_disappears_and_returns(created):
    console = terminal()
    with progress_view(console) as view:
        view.pause()
        view.show(created.backfill.status())
        view.pause()
        view.show(created.backfill.status())
    assert "0.0 %" in console.file.getvalue()


def test_a_status_shows_lag_headroom_and_what_to_do():
    console = Console(file=io.StringIO(), soft_wrap=True)
    show_status(late_status(), console)
    drawn = console.file.getvalue()
    assert "(lag 1 version, 6 d 21 h)" in drawn
    assert "headroom    3 h 0 min until unread changes may be deleted" in drawn
    assert "warning     the changes of /lake/orders from offset 1 on may be gone in 3 h 0 min" in drawn


def test_a_line_names_the_alarms():
    assert status_line(late_status()).endswith("epoch 1, lag 1 version, 6 d 21 h, headroom")
    assert status_line(late_status(hours=2)).endswith("lag 1 version, 2 h 0 min")


def test_a_log_gets_a_line_when_an_alarm_comes_and_not_again():
    console = Console(file=io.StringIO(), soft_wrap=True)
    view = LineView(console)
    for hours in (2, 3, 165, 166):
        view.show(late_status(hours))
    lines = console.file.getvalue().splitlines()
    assert [line.split(":")[0] for line in lines] == ["paid_orders", "paid_orders", "warning"]


def test_the_bar_stands_above_the_alarms():
    console = terminal()
    with progress_view(console) as view:
        view.show(late_status())
    assert "may be gone in 3 h 0 min" in " ".join(console.file.getvalue().split())
