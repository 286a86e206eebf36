"""Runs the epochs of a command, one after another."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tenacity import RetryCallState, Retrying, retry_if_exception, stop_after_attempt, wait_incrementing

from airflow_backfill_provider import protocol
from airflow_backfill_provider.cli.views import ProgressView, waits_because
from airflow_backfill_provider.core import text
from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.epoch.engine import Engine
from airflow_backfill_provider.core.epoch.epoch_record import EpochCommit
from airflow_backfill_provider.core.errors import BackfillError, UpstreamNotFinishedError
from airflow_backfill_provider.core.job.requester import Requester
from airflow_backfill_provider.core.status.job_status import JobStatus
from airflow_backfill_provider.jobs.adoption import AdoptingEngine
from airflow_backfill_provider.jobs.backfill import Backfill
from airflow_backfill_provider.jobs.followed_stars import follow_stars
from airflow_backfill_provider.protocol import Injection

RETRIES = 2
RETRY_SECONDS = 2.0


@dataclass(kw_only=True)
class Runner:
    """
    Runs the epochs of one command.

    :param backfill: the job, which must have been created.
    :param engine: creates the engine when there is an epoch to run.
    :param requester: the user at the terminal.
    :param view: shows the progress.
    :param sleep: waits before a retry, and between epochs to keep the job's pace.
    """

    backfill: Backfill
    engine: Callable[[], AdoptingEngine]
    requester: Requester
    view: ProgressView
    sleep: Callable[[float], None] = time.sleep
    _made: Engine | None = None
    _shown: JobStatus | None = None

    def run(self, *, max_epochs: int | None, until_finished: bool) -> None:
        """
        Run epochs up to the given number, or until nothing is left to do.

        :param max_epochs: the most epochs to run; ``None`` for any number.
        :param until_finished: stop after the epoch that finishes the view, if the view waits for an approval, or if the
            job reads no snapshot.
        :raises BackfillError: if an epoch fails; epochs that were committed before stay.
        """
        epochs = 0
        if until_finished and self._finish():
            self._say_finished(ran=False)
            return
        for done in itertools.islice(self._loop, max_epochs):
            if done.commit is None:
                self.view.say(f"nothing to do: {done.reason}")
                return
            epochs += 1
            finished = (until_finished or done.commit.completed) and self._finish()
            self.say_epoch(done.commit)
            status = self.show()
            waiting = waits_because(status)
            if until_finished and finished:
                self._say_finished(ran=True)
                return
            if until_finished and status.cut_over is not None:
                self.view.say(str(status.cut_over))
                return
            if until_finished and waiting:
                self.view.say(
                    f"stopped, not finished ({waiting}): changes were applied; to read the snapshot, "
                    f"{'resume the job' if waiting == 'paused' else 'set another rate limit'}"
                )
                return
        if until_finished:
            self.view.say(f"stopped after {epochs} epochs, not finished; run the same command to continue")

    def steps(self) -> Iterator[Injection]:
        """
        Yield each epoch that is run, at the job's pace, and at last why there is nothing to do.

        :raises BackfillError: if one fails.
        """
        return iter(self._loop)

    @property
    def _loop(self) -> protocol.EpochLoop:
        return protocol.EpochLoop(
            store=self.backfill.store,
            upstream=self.backfill.upstream,
            requester=self.requester,
            run=self._run,
            attempt=self._retrying,
            wait=self._wait,
        )

    def step(self) -> Injection:
        """
        Run one epoch, if there is something to do.

        :raises BackfillError: if it fails.
        """
        return self._retrying(self._loop.step)

    def _run(self, barrier: Barrier) -> EpochCommit:
        engine = self._engine(barrier)
        commit = protocol.run_epoch(barrier, store=self.backfill.store, engine=engine, by=str(self.requester))
        if happens := follow_stars(self.backfill, engine):
            self.view.say(happens)
        return commit

    def _engine(self, barrier: Barrier) -> Engine:
        if self._made is None:
            # While Java starts, this process's output is redirected, and the bar would be, too.
            self.view.pause()
            self.view.say("starting Spark")
            self._made = self.engine()
        self.show(f"epoch {barrier.epoch} runs")
        return self._made

    def _finish(self) -> bool:
        """Mark the view finished if every vnode is Completed; return whether it is finished."""
        store = self.backfill.store
        settings = store.settings()
        if settings.finished_epoch is not None:
            return True
        if protocol.completing_commit(store, settings) is None:
            return False
        protocol.finish_job(store=store, requested_by=str(self.requester))
        return True

    def _retrying(self, step: Callable[[], Injection]) -> Injection:
        """Retry a step after a retryable error; a pinned epoch is the same in every try."""
        retrying = Retrying(
            retry=retry_if_exception(_may_help_soon),
            wait=wait_incrementing(start=RETRY_SECONDS, increment=RETRY_SECONDS),
            stop=stop_after_attempt(RETRIES + 1),
            before_sleep=self._say_retry,
            sleep=self.sleep,
            reraise=True,
        )
        return retrying(step)

    def _say_retry(self, state: RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome else None
        self.view.say(f"{' '.join(str(error).split())}; trying again ({state.attempt_number} of {RETRIES})")

    def _wait(self, seconds: float) -> None:
        """Wait before the next epoch, because the job has a pace; Ctrl-C ends it."""
        if self._shown is not None:
            self.view.show(self._shown, "waits, to keep to max_rows_per_second")
        self.sleep(seconds)

    def show(self, activity: str = "") -> JobStatus:
        """Draw the job's progress."""
        status = self._shown = self.backfill.status()
        self.view.show(status, activity)
        return status

    def say_epoch(self, commit: EpochCommit, of: str = "") -> None:
        """
        Print what an epoch did.

        :param of: whose epoch it is, if that is not clear.
        """
        repaired = ", repair done" if "repair" in commit.seconds else ""
        self.view.say(
            f"{of}epoch {commit.epoch}: {text.rows(commit.snapshot_read_row_count)} read, "
            f"{commit.upstream_output_row_count:,} changes applied{repaired}, "
            f"{text.duration(sum(commit.seconds.values()))}"
        )

    def _say_finished(self, *, ran: bool) -> None:
        settings = self.backfill.store.settings()
        job = self.backfill.job
        when = "" if ran else " already; to apply new changes, run without --until-finished"
        self.view.say(f"finished as of epoch {settings.finished_epoch}: {job.materialized_view}{when}")


def _may_help_soon(error: BaseException) -> bool:
    """Return whether a retry after seconds may help; an upstream job takes longer to finish its view."""
    return isinstance(error, BackfillError) and error.retryable and not isinstance(error, UpstreamNotFinishedError)
