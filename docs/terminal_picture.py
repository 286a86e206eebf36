"""
Draw a backfill in a terminal for the README, with the code of the command line.

``python -m docs.terminal_picture --write`` writes ``docs/images/terminal.svg``, ``--check`` compares it. It starts no
Spark. The job and its numbers are made up. The picture uses the viewer's font and loads nothing.
"""

from __future__ import annotations

import argparse
import io
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

from airflow_backfill_provider.cli.views import LiveView, show_status
from airflow_backfill_provider.core import text
from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.core.status.job_condition import JobCondition
from airflow_backfill_provider.core.status.job_status import JobStatus, VnodeCounts
from airflow_backfill_provider.core.status.vnode_map import VnodeSpan

PICTURE = Path(__file__).parent / "images" / "terminal.svg"
COLUMNS = 104
ROWS = 12_000_000
RATE_LIMIT = 500_000
VNODES = 256
EPOCHS = 17
SPEED = 41_000.0

_WEB_FONTS = re.compile(r"\s*@font-face \{\{.*?\}\}\n", re.DOTALL)


class Frame(LiveView):
    """One frame of the live view."""

    def show(self, status: JobStatus, activity: str = "", notes: Sequence[str] = ()) -> None:
        """Print the frame."""
        self._status, self._activity, self._notes = status, activity, notes
        self._since = time.monotonic() - 9.2
        self._console.print(self._render())


def status() -> JobStatus:
    """Return the status of a job in the middle of its backfill."""
    rows_read = EPOCHS * RATE_LIMIT
    completed, of_next = divmod(rows_read, ROWS // VNODES)
    of_completed = rows_read - of_next
    return JobStatus(
        name="paid_orders",
        strategy="arrangement",
        epoch=EPOCHS,
        pinned_epoch=EPOCHS + 1,
        pinned_at=None,
        committed_at=None,
        condition=JobCondition.RUNNING,
        finished=False,
        paused=False,
        cancelled=False,
        rate_limit=RATE_LIMIT,
        effective_rate_limit=RATE_LIMIT,
        parallelism=1,
        vnodes=VnodeCounts(total=VNODES, not_started=VNODES - completed - 1, in_progress=1, completed=completed),
        rows_read=rows_read,
        rows_estimated=ROWS,
        progress=rows_read / ROWS,
        rows_per_second=SPEED,
        eta_seconds=(ROWS - rows_read) / SPEED,
        watermark=None,
        upstream_version=Offset(1412),
        oldest_rows_version=Offset(1412),
        upstream_latest_version=Offset(1415),
        lag_versions=3,
        lag_seconds=24.0,
        behind_since=None,
        headroom_hours=167.5,
        alarms=(),
        warnings=(),
        vnode_map=(
            VnodeSpan(first=0, last=completed - 1, state="completed", rows=of_completed, progress=1.0),
            VnodeSpan(
                first=completed, last=completed, state="in_progress", rows=of_next, progress=of_next / (ROWS // VNODES)
            ),
            VnodeSpan(first=completed + 1, last=VNODES - 1, state="not_started", rows=0, progress=0.0),
        ),
    )


def draw() -> str:
    """Return the picture."""
    console = Console(
        file=io.StringIO(), record=True, width=COLUMNS, force_terminal=True, color_system="truecolor", highlight=False
    )
    console.print(Text("$ airflow-backfill status paid_orders.yaml", style="bold"))
    show_status(status(), console)
    console.print(Text("\n$ airflow-backfill run paid_orders.yaml --until-finished", style="bold"))
    frame = Frame(console)
    frame.say(f"epoch {EPOCHS - 1}: {text.rows(RATE_LIMIT)} read, 1,204 changes applied, 12 s")
    frame.say(f"epoch {EPOCHS}: {text.rows(RATE_LIMIT)} read, 1,187 changes applied, 12 s")
    frame.show(status(), f"epoch {EPOCHS + 1} runs")
    return console.export_svg(
        title="airflow-backfill",
        unique_id="terminal",
        code_format=_WEB_FONTS.sub("", CONSOLE_SVG_FORMAT),
    )


def main() -> int:
    """Print the picture; with ``--write`` write the file, with ``--check`` compare it."""
    parser = argparse.ArgumentParser(description=f"Draws {PICTURE.name}.")
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--write", action="store_true", help="write the file")
    action.add_argument("--check", action="store_true", help="exit with 1 if the file is stale")
    arguments = parser.parse_args()
    picture = draw()
    if arguments.write:
        PICTURE.write_text(picture, encoding="utf-8")
    elif arguments.check:
        return int(picture != PICTURE.read_text(encoding="utf-8"))
    else:
        sys.stdout.write(picture)
    return 0


if __name__ == "__main__":
    sys.exit(main())
