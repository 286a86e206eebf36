"""What is drawn on a terminal and written to a log."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from airflow_backfill_provider.cli import text
from airflow_backfill_provider.cli.views import LineView, LiveView, progress_view


def terminal() -> Console:
    return Console(file=io.StringIO(), force_terminal=True, width=100, _environ={"TERM": "xterm"})


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


def test_a_paused_bar_is_taken_away_and_comes_back(created):
    console = terminal()
    with progress_view(console) as view:
        view.pause()
        view.show(created.backfill.status())
        view.pause()
        view.show(created.backfill.status())
    assert "0.0 %" in console.file.getvalue()


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(0.4, "0 s"), (59, "59 s"), (61, "1 min 1 s"), (3600, "1 h 0 min"), (90_000, "1 d 1 h")],
)
def test_durations(seconds, expected):
    assert text.duration(seconds) == expected


@pytest.mark.parametrize(("count", "expected"), [(0, "0 rows"), (1, "1 row"), (2_000_000, "2,000,000 rows")])
def test_rows(count, expected):
    assert text.rows(count) == expected


@pytest.mark.parametrize(("count", "expected"), [(5, "5 bytes"), (2048, "2.0 KiB"), (3 * 2**40, "3.0 TiB")])
def test_sizes(count, expected):
    assert text.size(count) == expected


def test_percent_does_not_round_up_to_all():
    assert text.percent(0.9999) == "99.9 %"
    assert text.percent(1.0) == "100.0 %"
