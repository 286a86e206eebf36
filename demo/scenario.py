"""The scenario of all demos, from an empty folder to the check."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

from airflow_backfill_provider.cli.views import ProgressView, progress_view
from airflow_backfill_provider.core import text
from airflow_backfill_provider.core.errors import BackfillError
from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.core.status.job_status import JobStatus
from airflow_backfill_provider.jobs.backfill import Backfill
from demo.airflow_server import DAG, AirflowServer
from demo.check import Finding
from demo.folder import DemoError, short_path
from demo.orders_writer import read_report
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
    """

    def __init__(self, upstream: Upstream, store: Store) -> None:
        run = upstream.run
        self._run = run
        self._upstream = upstream
        self._store = store
        self._folder = run.folder
        self._size = upstream.size
        self._processes = run.processes
        self._terminal = run.terminal
        environment = {**upstream.environment, **store.environment}
        self._airflow = AirflowServer(run.folder, upstream.size, run.processes, environment)
        upstream.write_job()
        self._backfill = Backfill(BackfillJob.from_yaml(run.folder.job), store.storage_options or None)
        self._printed_epoch = 0

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
        with progress_view(self._terminal.console) as view:
            self._run_dag_until(view, lambda status: status.finished)
        with progress_view(self._terminal.console) as view:
            self._terminal.heading("The view is finished, but the writer goes on: two more epochs keep it fresh")
            enough = self._backfill.status().epoch + FRESH_EPOCHS
            self._run_dag_until(view, lambda status: status.epoch >= enough)
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

    def _run_dag_once(self, heading: str) -> None:
        with progress_view(self._terminal.console) as view:
            self._terminal.heading(heading)
            self._run_dag_until(view, lambda _: True)

    def _run_dag_until(self, view: ProgressView, enough: Callable[[JobStatus], bool]) -> None:
        """Trigger one DAG run after another."""
        while True:
            self._follow(view, self._airflow.trigger())
            status = self._backfill.status()
            if enough(status):
                return

    def _follow(self, view: ProgressView, run: str) -> None:
        """Show a DAG run until it ends. The progress comes from the job's control tables, not from Airflow."""
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
            status = self._backfill.status()
        except BackfillError:
            return  # Airflow is about to create the job.
        self._print_epochs(view, status)
        doing = "" if status.pinned_epoch is None else f"epoch {status.pinned_epoch} runs"
        view.show(status, doing, [writer_line(read_report(self._folder.writer_report)), airflow])

    def _print_epochs(self, view: ProgressView, status: JobStatus) -> None:
        """Print a line for each new epoch."""
        if status.epoch == self._printed_epoch:
            return
        barriers, commits = self._backfill.store.log(since_epoch=self._printed_epoch + 1)
        windows = {barrier.epoch: barrier.upstream for barrier in barriers}
        for commit in commits:
            window = windows[commit.epoch]
            view.say(
                f"  epoch {commit.epoch}: upstream {status.offset_name}s ({window.from_offset}, {window.to_offset}], "
                f"{text.rows(commit.snapshot_read_row_count)} read, {commit.upstream_output_row_count:,} changes, "
                f"{text.duration(sum(commit.seconds.values()))}"
            )
            self._printed_epoch = commit.epoch

    def _airflow_line(self, run: str) -> str:
        tasks = self._airflow.tasks(run)
        return "Airflow: " + (
            ", ".join(f"{name.partition('.')[2] or name} {state}" for name, state in tasks) or "queued"
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
        offset = str(self._backfill.status().upstream_version)
        query = self._folder.path / "query.sql"
        query.write_text(self._upstream.query, encoding="utf-8")
        with self._terminal.step("comparing the view with its query, row by row, in a separate Spark"):
            self._processes.run("check", self._upstream.check_command(offset, query))
        answer = self._processes.log("check").read_text(encoding="utf-8").strip().splitlines()[-1]
        finding = Finding(**json.loads(answer))
        what = self._upstream.as_of(offset)
        if not finding.equal:
            raise DemoError(f"the view differs from its query over {what}: {finding}")
        self._terminal.say(
            f"equal: the view has the {text.rows(finding.found)} that the query gives over {what}; none are missing, "
            "and none are extra"
        )

    def _say_what_next(self) -> None:
        folder, terminal = self._folder, self._terminal
        terminal.heading("Where everything lies")
        for path, what in {
            **self._upstream.places,
            folder.view: "the materialized view",
            self._backfill.job.state: "the job's settings, barrier log and state per vnode, as Delta tables",
            folder.job: "the job",
            folder.airflow_home / "logs": "Airflow's task logs",
            folder.logs: "the output of the processes",
            **self._store.places,
        }.items():
            terminal.say(f"{short_path(path)}: {what}")
        terminal.heading("What to try next")
        for line in (*self._store.commands_after_the_end, *self._upstream.commands_afterwards):
            terminal.say(line)
        terminal.say(f"{self._upstream.target} ARGS=--stay    (keeps Airflow running, to click through)")
