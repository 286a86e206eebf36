"""
Shows the progress of a job: a live bar on a terminal, plain lines anywhere else.

The bar needs only a :class:`~airflow_backfill_provider.core.status.job_status.JobStatus`, so every process that can
read the control tables can draw it.
"""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Sequence
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from airflow_backfill_provider.cli.upstream_lines import behind_root, lag_of_all, lag_of_lead, upstream_lines
from airflow_backfill_provider.core import text
from airflow_backfill_provider.core.clock import utc_now
from airflow_backfill_provider.core.epoch.replay import MOST_EPOCHS
from airflow_backfill_provider.core.job.rate_limit import described_limit
from airflow_backfill_provider.core.status.job_condition import JobCondition
from airflow_backfill_provider.core.status.job_status import JobStatus, JobSummary
from airflow_backfill_provider.core.status.recent_work import described
from airflow_backfill_provider.core.status.verification_text import verified_line

MAP_CELLS = 64
"""The most cells in the map of vnodes."""

MOST_SPLITS = 32
"""The most splits that are listed one by one."""

MOST_IN_PROGRESS = 8
"""The most vnodes in progress that are listed one by one."""

READY = "ready, waits for an approval"
"""What is said of a view that is complete, and not approved."""

_CELLS = {"completed": "█", "in_progress": "▒", "not_started": "·"}


class ProgressView(Protocol):
    """Shows the progress of a job, as long as its context is open."""

    def show(self, status: JobStatus, activity: str = "", notes: Sequence[str] = ()) -> None:
        """
        Show the job's status.

        :param activity: the current activity.
        :param notes: further lines below the status.
        """
        ...

    def say(self, line: str) -> None:
        """Print a permanent line."""
        ...

    def pause(self) -> None:
        """Stop drawing until the next status is shown."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def progress_view(console: Console) -> ProgressView:
    """Return the view for a console: a live one for a terminal, otherwise lines."""
    return LiveView(console) if console.is_terminal else LineView(console)


class LineView:
    """
    Prints a line whenever something has changed, for logs and pipes.

    :param console: the output.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._last: object = None

    def show(self, status: JobStatus, activity: str = "", notes: Sequence[str] = ()) -> None:  # noqa: ARG002
        """Print the status if the job's progress or its settings have changed."""
        alarms = [alarm.kind for alarm in status.alarms]
        news = (status.epoch, status.finished, status.cancelled, status.paused, status.rate_limit, alarms)
        if news != self._last:
            self._last = news
            self.say(status_line(status))
            for alarm in status.alarms:
                self.say(f"warning: {alarm}")

    def say(self, line: str) -> None:
        """Print a line."""
        self._console.print(line, soft_wrap=True, markup=False, highlight=False)

    def pause(self) -> None:
        """Do nothing: lines are not redrawn."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass


class LiveView:
    """
    Redraws a bar, with permanent lines above it.

    :param console: the terminal.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live: Live | None = None
        self._status: JobStatus | None = None
        self._notes: Sequence[str] = ()
        self._activity = ""
        self._since = 0.0
        self._spinner = Spinner("dots")

    def show(self, status: JobStatus, activity: str = "", notes: Sequence[str] = ()) -> None:
        """Draw the status, and start drawing again after a pause."""
        if activity != self._activity:
            self._activity, self._since = activity, time.monotonic()
        self._status, self._notes = status, notes
        if self._live is None:
            self._live = Live(console=self._console, get_renderable=self._render, refresh_per_second=8, transient=False)
            self._live.start()

    def say(self, line: str) -> None:
        """Print a line above the bar."""
        self._console.print(line, soft_wrap=True, markup=False, highlight=False)

    def pause(self) -> None:
        """Remove the bar."""
        if self._live is not None:
            self._live.transient = True
            self._live.stop()
            self._live = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._activity = ""
            self._live.stop()
            self._live = None

    def _render(self) -> Group:
        status = self._status
        if status is None:
            return Group()
        bar = Table.grid(padding=(0, 1))
        bar.add_column(no_wrap=True)
        bar.add_column(ratio=1)
        bar.add_column(no_wrap=True, justify="right")
        bar.expand = True
        done = "green" if status.finished else "cyan"
        bar.add_row(
            Text(status.name, style="bold"),
            ProgressBar(total=1.0, completed=status.progress, complete_style=done, finished_style="green"),
            Text(f"{text.percent(status.progress)}  {_rows(status)}"),
        )
        cells = Text(vnode_map(status), style=done) if status.vnodes.total > 1 else Text()
        details = Table.grid(padding=(0, 1))
        doing = f"{self._activity}, {time.monotonic() - self._since:.0f} s" if self._activity else ""
        marker = self._spinner.render(time.monotonic()) if doing else Text(" ")
        details.add_row(marker, Text(" · ".join([*_details(status), *([doing] if doing else [])]), style="dim"))
        beside = [] if status.rebuild is None else [Text(f"  rebuild: {rebuild_line(status.rebuild)}", style="dim")]
        alarms = (Text(f"  {alarm}", style="yellow") for alarm in status.alarms)
        return Group(bar, cells, details, *beside, *alarms, *(Text(f"  {note}", style="dim") for note in self._notes))


def status_line(status: JobStatus) -> str:
    """Return a job's progress in one line."""
    return f"{status.name}: {text.percent(status.progress)}, {_rows(status)}, {', '.join(_details(status))}"


def rebuild_line(rebuild: JobSummary) -> str:
    """Return the progress of a rebuild that grows beside a view, in one line."""
    takes_place = "finished, and takes the view's place with the next epoch"
    doing = takes_place if rebuild.finished else _standing(rebuild) or "in progress"
    eta = "" if rebuild.eta_seconds is None or rebuild.finished else f", ETA {text.duration(rebuild.eta_seconds)}"
    return (
        f"{doing}, {text.percent(rebuild.progress)}, {_rows(rebuild)}{eta} ({rebuild.strategy}, epoch {rebuild.epoch})"
    )


def _rows(status: JobSummary) -> str:
    return f"{status.rows_read:,} of {text.rows(status.rows_estimated)}"


def _details(status: JobStatus) -> list[str]:
    details = []
    if standing := _standing(status):
        details.append(standing)
    if status.rows_per_second is not None and not status.finished:
        details.append(f"{text.rows(status.rows_per_second)}/s")
    if status.eta_seconds is not None and not status.finished:
        details.append(f"ETA {text.duration(status.eta_seconds)}")
    return [*details, f"epoch {status.epoch}", f"lag {lag_of_all(status)}", *(alarm.kind for alarm in status.alarms)]


def _standing(status: JobSummary) -> str:
    """Return whether a job is finished, or why it reads no snapshot; empty if it reads one."""
    if status.finished:
        return "finished"
    if status.cancelled:
        return "cancelled"
    return READY if status.condition is JobCondition.READY else waits_because(status)


def waits_because(status: JobSummary) -> str:
    """Return why an unfinished job reads no snapshot; empty if it reads one."""
    if status.paused:
        return "paused"
    return "rate limit 0" if status.rate_limit == 0 else ""


def vnode_map(status: JobStatus) -> str:
    """
    Draw the vnodes in one line, with a cell for each vnode, or for several if there are many.

    ``█`` is completed, ``▒`` in progress, ``·`` not started.
    """
    states = [run.state for run in status.vnode_map for _ in range(run.first, run.last + 1)]
    cells = min(len(states), MAP_CELLS)
    bounds = [cell * len(states) // cells for cell in range(cells + 1)]
    found = [set(states[first:after]) for first, after in itertools.pairwise(bounds)]
    return "".join(_CELLS[cell.pop() if len(cell) == 1 else "in_progress"] for cell in found)


def show_status(status: JobStatus, console: Console) -> None:
    """Print a job's status as text."""
    limit = described_limit(status.rate_limit, status.effective_rate_limit, status.rate_limit_reason)
    vnodes = status.vnodes
    version = "none yet" if status.upstream_version is None else f"{status.offset_name} {status.upstream_version}"
    if status.oldest_rows_version not in {status.upstream_version, None}:
        version += f", some rows at {status.oldest_rows_version} until it is finished"
    pinned = "" if status.pinned_epoch is None else f", epoch {status.pinned_epoch} is pinned"
    speed = "" if status.rows_per_second is None or status.finished else f", {text.rows(status.rows_per_second)}/s"
    eta = "" if status.eta_seconds is None or status.finished else f", ETA {text.duration(status.eta_seconds)}"
    lines = {
        "job": f"{status.name} ({status.strategy}), {_standing(status) or 'in progress'}",
        "progress": f"{text.percent(status.progress)}, {_rows(status)}{speed}{eta}",
        "epoch": f"{status.epoch or 'none'} committed{pinned}",
        "vnodes": f"{vnodes.total}: {vnodes.not_started} not started, {vnodes.in_progress} in progress, "
        f"{vnodes.completed} completed",
        "": vnode_map(status),
        "rate limit": limit
        + (f", shared by {status.parallelism} parallel task runs" if status.parallelism > 1 else "")
        + (", paused" if status.paused else ""),
        **({} if status.max_rows_per_second is None else {"pace": _pace(status.max_rows_per_second)}),
        "upstream": f"view at {version}, newest is {status.offset_name} {status.upstream_latest_version} "
        f"(lag {lag_of_lead(status)})",
    }
    for name, value in (lines | _optional_lines(status)).items():
        console.print(f"{name:<12}{value}")
    for name, value in upstream_lines(status):
        console.print(f"{name:<11} {value}")
    _show_splits(status, console)
    for warning in status.warnings:
        console.print(f"{'warning':<12}{warning}")


def _optional_lines(status: JobStatus) -> dict[str, str]:
    """Return the lines about what not every job has."""
    lines = {}
    if status.chain:
        chained = " → ".join([*map(str, status.chain), status.name])
        lines["chain"] = f"{chained}{behind_root(status.root_lag_seconds)}"
    if status.replay_epoch:
        takes_all = status.replay_epoch >= MOST_EPOCHS
        rest = "which takes all changes that are left" if takes_all else f"of at most {MOST_EPOCHS}"
        lines["replay"] = f"epoch {status.replay_epoch} {rest}"
    if verified := _verified(status):
        lines["verified"] = verified
    if status.work is not None:
        lines["work"] = described(status.work)
    if status.kept_bytes is not None:
        left = "" if status.kept_bytes_left is None else f", {text.size(status.kept_bytes_left)} left"
        lines["kept log"] = f"{text.size(status.kept_bytes)}{left}"
    if status.headroom_hours is not None:
        lines["headroom"] = f"{text.duration(status.headroom_hours * 3600)} until unread changes may be deleted"
    if begun := _begun_vnodes(status):
        lines["in progress"] = begun
    if status.watermark is not None:
        lines["watermark"] = status.watermark.isoformat(sep=" ", timespec="milliseconds")
    if status.rebuild is not None:
        lines["rebuild"] = rebuild_line(status.rebuild)
    return lines


def _verified(status: JobStatus) -> str:
    """Return the line about the newest verification; empty if there is none."""
    if status.verification_problem is not None:
        return "unknown"
    return "" if status.verified is None else verified_line(status.verified, utc_now())


def _begun_vnodes(status: JobStatus) -> str:
    """Return the vnodes in progress; empty if there are none, or if the upstream has splits, which are shown."""
    begun = [cell for cell in status.vnode_map if cell.state == "in_progress" and cell.first == cell.last]
    if not begun or status.splits:
        return ""
    listed = ", ".join(f"{cell.first} ({text.percent(cell.progress)})" for cell in begun[:MOST_IN_PROGRESS])
    more = f" and {len(begun) - MOST_IN_PROGRESS} more" if len(begun) > MOST_IN_PROGRESS else ""
    return f"vnode {listed}{more}"


def _pace(most: int) -> str:
    return f"at most {text.rows(most)} per second, averaged over a run of several epochs"


def _show_splits(status: JobStatus, console: Console) -> None:
    if not status.splits:
        return
    stages = Counter(split.stage.value.replace("_", " ") for split in status.splits)
    counted = ", ".join(f"{number} {stage}" for stage, number in stages.items())
    console.print(f"{'splits':<12}{len(status.splits)}: {counted}")
    for split in status.splits[:MOST_SPLITS]:
        console.print(
            f"{f'split {split.split}':<12}{split.stage.value.replace('_', ' ')}, next {split.next:,} of {split.end:,}, "
            f"lag {split.lag:,}"
        )
    if len(status.splits) > MOST_SPLITS:
        console.print(f"{'':<12}and {len(status.splits) - MOST_SPLITS} more; see --json")
