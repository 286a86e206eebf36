"""The scenario of all demos, from an empty folder to the check."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from airflow_backfill_provider.cli.views import ProgressView, progress_view
from airflow_backfill_provider.core import text
from airflow_backfill_provider.core.errors import BackfillError
from airflow_backfill_provider.core.status.job_status import JobStatus
from demo.airflow_server import DAG, AirflowServer
from demo.check import Finding
from demo.folder import DemoError, program, short_path
from demo.followed import FollowedJob
from demo.job import DemoJob
from demo.orders_writer import read_report
from demo.query_change import QueryChange
from demo.store import Store
from demo.terminal import writer_line
from demo.upstream import Upstream

FRESH_EPOCHS = 2
LOOK_EVERY = 1.0
ASK_AIRFLOW_EVERY = 2.0


class Scenario:
    """
    Runs the steps of a demo.

    :param upstream: what the backfill reads.
    :param store: where the tables lie.
    :param jobs: the jobs, each after the one whose view it reads; their files are written.
    :param change: another query for the first job, once its view is finished; ``None`` if it keeps its query.
    """

    def __init__(
        self, upstream: Upstream, store: Store, jobs: Sequence[DemoJob], change: QueryChange | None = None
    ) -> None:
        run = upstream.run
        self._run = run
        self._upstream = upstream
        self._store = store
        self._folder = run.folder
        self._size = upstream.size
        self._processes = run.processes
        self._terminal = run.terminal
        environment = {**upstream.environment, **store.environment}
        more = [job.file for job in jobs[1:]]
        self._airflow = AirflowServer(run.folder, upstream.size, run.processes, environment, more)
        self._jobs = [FollowedJob(job, store.storage_options or None) for job in jobs]
        self._change = change

    def run(self, *, stay: bool) -> None:
        """
        Run the whole demo.

        :param stay: keep everything running after the last epoch until Ctrl-C, then check.
        :raises DemoError: if a step or the check fails.
        """
        self._set_up()
        self._terminal.heading(
            f"The backfill: Airflow runs the DAG {DAG}, {self._size.epochs_per_run} epochs per DAG run"
        )
        for line in self._upstream.reading:
            self._terminal.say(line)
        for following in self._jobs[1:]:
            self._terminal.say(
                f"{following.name} reads the finished view {self._jobs[0].name}; its epochs compute again only the "
                "groups whose rows changed."
            )
        with progress_view(self._terminal.console) as view:
            self._run_dag_until(view, lambda jobs: all(job.finished for job in jobs))
        with progress_view(self._terminal.console) as view:
            self._terminal.heading(self._finished)
            enough = [job.epoch + FRESH_EPOCHS for job in self._statuses()]
            self._run_dag_until(
                view, lambda jobs: all(job.epoch >= wanted for job, wanted in zip(jobs, enough, strict=True))
            )
        if self._change is not None:
            self._change_query(self._change)
        if stay:
            self._stay()
        self._upstream.before_the_check(self._run_dag_once)
        self._tear_down()
        self._check()
        self._say_what_next()

    def _set_up(self) -> None:
        terminal = self._terminal
        terminal.heading(self._upstream.title)
        self._airflow.begin_database()
        self._store.start()
        self._upstream.create()
        terminal.heading("Airflow, with SQLite and Spark on this machine")
        with terminal.step("starting scheduler, dag-processor, triggerer and api-server"):
            self._airflow.start()
        terminal.say(f"watch it in the browser (no login): {self._airflow.url}/dags/{DAG}")
        self._upstream.start_writer()

    def _change_query(self, change: QueryChange) -> None:
        self._terminal.heading("Another query: the view gets a column, and the writer goes on")
        change.propose()
        self._run_dag_once("Nobody has approved it yet, so the next epochs keep the view of the former query fresh")
        self._terminal.heading("What would be different?")
        change.look_at_the_difference()
        change.approve()
        # From now on, the check compares with the other query.
        self._jobs[0].job = change.latter
        self._run_dag_once("It is approved: the next epoch makes the whole view of the new query, in one commit")

    def _run_dag_once(self, heading: str) -> None:
        with progress_view(self._terminal.console) as view:
            self._terminal.heading(heading)
            self._run_dag_until(view, lambda _: True)

    @property
    def _finished(self) -> str:
        what, them = ("The view is", "it") if len(self._jobs) == 1 else ("The views are", "them")
        return f"{what} finished, but the writer goes on: two more epochs keep {them} fresh"

    def _statuses(self) -> list[JobStatus]:
        """Return the statuses of the created jobs."""
        return [status for job in self._jobs if (status := job.status) is not None]

    def _run_dag_until(self, view: ProgressView, enough: Callable[[Sequence[JobStatus]], bool]) -> None:
        """Trigger one DAG run after another."""
        while True:
            self._follow(view, self._airflow.trigger())
            statuses = self._statuses()
            for job in self._jobs[len(statuses) :]:
                view.say(f"  {job.name} {job.waiting}")
            if len(statuses) == len(self._jobs) and enough(statuses):
                return

    def _follow(self, view: ProgressView, run: str) -> None:
        """Show a DAG run until it ends."""
        asked, state, airflow = 0.0, "queued", "Airflow: queued"
        while state in {"queued", "running"}:
            if time.monotonic() - asked > ASK_AIRFLOW_EVERY:
                state, airflow, asked = self._airflow.state(run), self._airflow_line(run), time.monotonic()
                self._run.require_alive()
            self._show(view, airflow)
            time.sleep(LOOK_EVERY)
        self._show(view, airflow)
        if state != "success":
            raise DemoError(f"DAG run {run} of {DAG} is {state}; see {self._folder.airflow_home / 'logs'}")

    def _show(self, view: ProgressView, airflow: str) -> None:
        try:
            statuses = self._statuses()
        except BackfillError:
            return  # Airflow is about to create a job.
        for job, status in zip(self._jobs, statuses, strict=False):
            for line in job.new_epochs(status):
                view.say(f"  {self._of(job.name, ': ')}{line}")
        if statuses:
            shown = next((status for status in statuses if status.pinned_epoch or not status.finished), statuses[-1])
            doing = "" if shown.pinned_epoch is None else f"epoch {shown.pinned_epoch} runs"
            view.show(shown, doing, [writer_line(read_report(self._folder.writer_report)), airflow])

    def _of(self, name: str, separator: str) -> str:
        """Return the name of a job or a group of tasks as a prefix; empty if there is only one job."""
        return "" if len(self._jobs) == 1 else f"{name}{separator}"

    def _airflow_line(self, run: str) -> str:
        tasks = [(*name.partition("."), state) for name, state in self._airflow.tasks(run)]
        return "Airflow: " + (
            ", ".join(f"{self._of(group, '.') if name else group}{name} {state}" for group, _, name, state in tasks)
            or "queued"
        )

    def _stay(self) -> None:
        self._terminal.heading("Everything keeps running until Ctrl-C; the check follows")
        self._terminal.say(f"Airflow: {self._airflow.url}/dags/{DAG}")
        self._terminal.say("meanwhile, in another terminal:")
        for line in (*self._store.commands_meanwhile, *self._upstream.commands_meanwhile):
            self._terminal.say(f"  {line}")
        with progress_view(self._terminal.console) as view:
            try:
                while True:
                    self._run.require_alive()
                    self._show(view, "Ctrl-C goes on")
                    time.sleep(LOOK_EVERY)
            except KeyboardInterrupt:
                return

    def _tear_down(self) -> None:
        self._terminal.heading("The end")
        with self._terminal.step("stopping Airflow, and everything that writes"):
            self._processes.stop()

    def _check(self) -> None:
        """Compare each view with its query over the orders, as of the offsets that the first view is at."""
        first = self._statuses()[0]
        for followed in self._jobs:
            self._compare(followed, first)
        for line in self._upstream.result({job.name: job.job.view for job in self._jobs}):
            self._terminal.say(line)

    def _compare(self, followed: FollowedJob, first: JobStatus) -> None:
        query = self._folder.path / f"{followed.name}.sql"
        query.write_text(followed.job.over_orders, encoding="utf-8")
        with self._terminal.step(f"comparing the view {followed.name} with its query, row by row, in a separate Spark"):
            command = self._upstream.check_command(first, followed.job.view, query)
            self._processes.run(f"check-{followed.name}", command)
        log = self._processes.log(f"check-{followed.name}")
        finding = Finding(**json.loads(log.read_text(encoding="utf-8").strip().splitlines()[-1]))
        what = self._upstream.as_of(first)
        if not finding.equal:
            raise DemoError(f"the view {followed.name} differs from its query over {what}: {finding}")
        self._terminal.say(
            f"equal: the view has the {text.rows(finding.found)} that the query gives over {what}; none are missing, "
            "and none are extra"
        )

    def _say_what_next(self) -> None:
        folder, terminal = self._folder, self._terminal
        terminal.heading("Where everything lies")
        places: dict[Path | str, str] = {
            **self._upstream.places,
            **{job.job.view: f"the materialized view {job.name}" for job in self._jobs},
            **{job.state: "the job's settings, barrier log and state per vnode, as Delta tables" for job in self._jobs},
            **{job.job.file: "the job" for job in self._jobs},
            folder.airflow_home / "logs": "Airflow's task logs",
            folder.logs: "the output of the processes",
            **self._store.places,
        }
        for path, what in places.items():
            terminal.say(f"{short_path(path)}: {what}")
        terminal.heading("What to try next")
        for line in (*self._store.commands_after_the_end, *self._upstream.commands_afterwards):
            terminal.say(line)
        for job in self._jobs[1:]:
            terminal.say(f"{program('airflow-backfill')} status {short_path(job.job.file)}")
        terminal.say(f"{self._upstream.stay_command}    (keeps Airflow running, to click through)")
