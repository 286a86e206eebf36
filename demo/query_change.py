"""The chapter ``--change``: the job gets another query while the writer goes on, and somebody approves it."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from demo.job import CHANGED_QUERY, DemoJob, write_changed_job
from demo.run import DemoRun

_FIRST_LINES = 12
"""How many lines of a difference are shown."""


class QueryChange:
    """
    Another query for a job, with the commands that a user would type.

    :param run: the run of the demo.
    :param job: the job, with its query so far.
    :param environment: further environment variables that the commands need.
    """

    def __init__(self, run: DemoRun, job: DemoJob, environment: Mapping[str, str]) -> None:
        self._run = run
        self._environment = {**os.environ, **environment}
        self.former = job
        self.latter = replace(job, over_orders=CHANGED_QUERY)

    def propose(self) -> None:
        """Write the other query into the job's file, and ask for it."""
        write_changed_job(self.latter.file, self.former.over_orders, CHANGED_QUERY)
        self._command("change", "asking for the other query, which checks it on Spark")

    def look_at_the_difference(self) -> None:
        """Compare the view as it is with what it would be."""
        self._command("diff", "comparing both, as of one version of the upstream")

    def approve(self) -> None:
        """Approve what the difference showed."""
        self._command("approve", "approving it")

    def _command(self, command: str, doing: str) -> None:
        run, name = self._run, f"airflow-backfill-{command}"
        run.terminal.say(f"$ airflow-backfill {command} {self.latter.file.name}")
        with run.terminal.step(doing):
            program = Path(sys.executable).parent / "airflow-backfill"
            run.processes.run(name, [str(program), command, str(self.latter.file)], self._environment)
        lines = run.processes.log(name).read_text(encoding="utf-8", errors="replace").strip().splitlines()
        for line in lines[:_FIRST_LINES]:
            run.terminal.say(f"  {line}")
        if len(lines) > _FIRST_LINES:
            run.terminal.say(f"  … and {len(lines) - _FIRST_LINES} more lines")
