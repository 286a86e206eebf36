"""Print the demo's lines, and the line of the writer below the bar."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console

from airflow_backfill_provider.core import text
from demo.orders_writer import Report


class Terminal:
    """
    Prints the demo's lines.

    :param console: the output.
    """

    def __init__(self, console: Console) -> None:
        self.console = console

    def heading(self, line: str) -> None:
        """Print the heading of a section."""
        self.console.print()
        self.console.print(line, style="bold", soft_wrap=True)

    def say(self, line: str) -> None:
        """Print a line."""
        self.console.print(f"  {line}", soft_wrap=True, markup=False, highlight=False)

    @contextmanager
    def step(self, doing: str) -> Iterator[None]:
        """Show what is being done during the block, and then how long it took."""
        begun = time.monotonic()
        if self.console.is_terminal:
            with self.console.status(f"  {doing}"):
                yield
        else:
            yield
        self.say(f"{doing}: {text.duration(time.monotonic() - begun)}")


def writer_line(report: Report | None) -> str:
    """Return the line with the writer's counts."""
    if report is None:
        return "writer: starting"
    return (
        f"writer: {report.commits:,} commits, {report.inserted:,} inserted, {report.updated:,} updated, "
        f"{report.deleted:,} deleted, {report.rekeyed:,} re-keyed, now at {report.now_at}"
    )
