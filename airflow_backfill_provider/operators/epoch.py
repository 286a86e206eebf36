"""Operators of one epoch: inject its barrier, and run it."""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

from airflow.sdk import Context, XComArg
from airflow.sdk.exceptions import AirflowException, AirflowSkipException

from airflow_backfill_provider.core.application import epoch_application, epoch_of_application
from airflow_backfill_provider.core.epoch.announced import committed
from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.epoch.epoch_record import EpochCommit
from airflow_backfill_provider.core.epoch.giving_up import require_not_given_up
from airflow_backfill_provider.core.epoch.task_run_epochs import TaskRunEpochs
from airflow_backfill_provider.core.errors import (
    ConcurrentUpdateError,
    EpochFailedError,
    JobCancelledError,
    UpstreamReplacedError,
)
from airflow_backfill_provider.hooks.task_run import empty_interval_warning, is_manual, requester_of, until_of
from airflow_backfill_provider.jobs.progress import current_progress, progress_after
from airflow_backfill_provider.operators.arguments import epoch_of, epochs_per_run_of, is_unset
from airflow_backfill_provider.operators.base import SparkBackfillOperator, cancelled_skip
from airflow_backfill_provider.operators.epoch_reporting import EpochReportingOperator
from airflow_backfill_provider.operators.summaries import (
    barrier_summary,
    epochs_summary,
    name_of_epochs,
    no_barrier,
    no_epoch,
)

if TYPE_CHECKING:
    from airflow_backfill_provider.jobs.backfill import Backfill
    from airflow_backfill_provider.protocol import Injection

MOST_FOREIGN_BARRIERS = 10
"""The most barriers of other requesters that a task run completes before its own."""


class _InjectingOperator(EpochReportingOperator):
    """
    A task that may pin a barrier. (templated: until, and those of the base)

    :param until: the instant that upstreams are read as of in a DAG run without a data interval, in ISO format; by
        default at their newest versions.
    """

    template_fields: Sequence[str] = ("until", *EpochReportingOperator.template_fields)

    def __init__(self, *, until: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.until = until

    def until_in(self, context: Context) -> dt.datetime | None:
        """Return the instant that the upstreams are read as of; ``None`` for their newest versions."""
        end = until_of(context)
        return dt.datetime.fromisoformat(self.until) if end is None and self.until else end

    def warn_of_empty_interval(self, context: Context) -> None:
        """Log a warning if the DAG run's data interval has length zero and so cannot bound the epoch's window."""
        note = empty_interval_warning(context)
        if note is not None:
            self.log.warning("%s", note)

    def skip_unless_manual(self, context: Context, error: JobCancelledError) -> None:
        """
        Skip the task of a cancelled job, so that a DAG with a schedule does not fail for ever.

        :raises AirflowSkipException: if nobody started the DAG run by hand; who did so learns of the error.
        """
        if not is_manual(context):
            raise cancelled_skip(str(error)) from error

    @contextmanager
    def serving(self, backfill: Backfill) -> Iterator[None]:
        """
        Skip the task if only the rebuild that grows beside the view can go on, because the upstream is another table.

        :raises AirflowSkipException: if so; the rebuild, which comes after this task, takes the view's place later.
        """
        try:
            yield
        except UpstreamReplacedError as error:
            if backfill.successor is None:
                raise
            raise AirflowSkipException(f"the view in service is not kept fresh: {error}") from error


class InjectBarrierOperator(_InjectingOperator):
    """
    Pins the next barrier, without Spark; another task runs it. Changes of a database are landed first.

    A retry or a cleared task finds the barrier that it pinned before. If a barrier is pinned and not committed, the
    task returns that one instead of a new one. In a scheduled DAG run and in a DAG run of an Airflow backfill, the
    epoch's window ends at the ``data_interval_end``; in any other DAG run, at the upstream's newest version. If the job
    is cancelled, the task fails in a manual DAG run, and is skipped in any other.

    Returns the barrier's summary, for :class:`RunEpochOperator`; its ``epoch`` is ``None`` if there is nothing to do.

    :param until: in such another DAG run, the instant that upstreams are read as of instead, in ISO format. (templated)
    """

    def execute(self, context: Context) -> dict[str, Any]:
        """Pin the barrier."""
        from airflow_backfill_provider import protocol

        with self.created() as backfill:
            self.begin_announcing(context, backfill)
            self.warn_of_empty_interval(context)
            try:
                with self.serving(backfill):
                    injection = protocol.inject_barrier(
                        store=backfill.store,
                        upstream=backfill.upstream,
                        requester=requester_of(context),
                        until=self.until_in(context),
                    )
            except JobCancelledError as error:
                self.skip_unless_manual(context, error)
                raise
        if injection.barrier is None:
            self.log.info("nothing to do: %s", injection.reason)
            return no_barrier(injection.reason)
        self.log_plan(backfill, injection.barrier)
        return barrier_summary(injection.barrier)


class RunEpochOperator(SparkBackfillOperator, _InjectingOperator):
    """
    Runs one epoch, or several in one Spark application.

    (templated: barrier, epochs_per_run, until, and those of the base)

    Starts Spark only if there is something to do: if the window is covered or the epoch is already committed, the task
    succeeds at once. The task trusts the barrier log, not the application's exit code: the epoch is done once it is
    committed there. If the pinned barrier belongs to another requester, such as a failed DAG run, it is completed
    first.

    With ``epochs_per_run``, each epoch has its own barrier and is committed before the next one is pinned, so a
    mutation takes effect between two epochs. The task run ends early if there is nothing left to do, and after the
    epoch that completes every vnode. A retry or a cleared task continues with the epoch that failed, and runs the
    remaining epochs.

    Returns the epochs' summary (``epoch, epochs, from_version, to_version, rows, changes, progress, finished``):
    ``epoch`` is the last one, ``epochs`` are all, and the other fields cover all of them. If there was nothing to do,
    ``epoch`` is ``None`` and ``reason`` has the reason. If the job is cancelled, the task fails in a
    manual DAG run, and is skipped in any other.

    With :data:`~airflow_backfill_provider.assets.MATERIALIZED_VIEWS` among its outlets, the view's asset gets an event
    for every committed epoch after the last one that a succeeded task run of the same DAG announced, whoever ran it; a
    retry may repeat one. A DAG that is new to the job begins with the epochs that are committed after its first task
    run begins. An asset among the outlets gets one event, for the last of these epochs.

    :param barrier: the one epoch to run, as a number or as :class:`InjectBarrierOperator` returns it; ``None`` injects
        a barrier for this task run, by the rules of that operator.
    :param epochs_per_run: the most epochs that a task run injects and runs, one after another in one Spark application.
    :param until: as of :class:`InjectBarrierOperator`.
    """

    template_fields: Sequence[str] = ("barrier", "epochs_per_run", "until", *SparkBackfillOperator.template_fields)

    def __init__(
        self,
        *,
        barrier: Mapping[str, Any] | int | str | XComArg | None = None,
        epochs_per_run: int | str = 1,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.barrier: Any = barrier
        self.epochs_per_run: Any = epochs_per_run

    def execute(self, context: Context) -> dict[str, Any]:
        """Run the epoch, or the epochs."""
        with self.created() as backfill:
            summary = self.run_for(backfill, context)
        # The name of a mapped task run in the grid; see map_index_template.
        cast("dict[str, Any]", context)["epoch"] = name_of_epochs(summary["epochs"])
        return summary

    def run_for(self, backfill: Backfill, context: Context) -> dict[str, Any]:
        """Run the epoch, or the epochs, and return their summary."""
        if is_unset(self.barrier):
            return self.run_own(backfill, context)
        self.begin_announcing(context, backfill)
        if isinstance(self.barrier, Mapping) and self.barrier.get("epoch") is None:
            return self._no_barrier_to_run(backfill, str(self.barrier.get("reason", "there is no barrier")), context)
        barrier = backfill.store.pinned(epoch_of(self.barrier))
        return self._summary(backfill, [barrier], [self._run(backfill, barrier)], context)

    def run_own(self, backfill: Backfill, context: Context) -> dict[str, Any]:
        """
        Inject and run barriers until one belongs to this task run; run that one and those that follow it.

        :raises JobCancelledError: in a manual DAG run, if the job is cancelled and there is nothing to announce.
        :raises AirflowSkipException: in any other DAG run, likewise.
        """
        self.begin_announcing(context, backfill)
        try:
            with self.serving(backfill):
                return self._run_own(backfill, context)
        except JobCancelledError as error:
            # The epochs of others may be committed after their task runs failed.
            if not self.announce(context, backfill):
                self.skip_unless_manual(context, error)
                raise
            self.log.warning("%s", error)
            progress, _ = current_progress(backfill.store, backfill.settings().incarnation)
            return no_epoch(str(error), progress)

    def _run_own(self, backfill: Backfill, context: Context) -> dict[str, Any]:
        from airflow_backfill_provider import protocol

        requester, epochs = requester_of(context), epochs_per_run_of(self.epochs_per_run)
        if self._ended:
            # Changes that arrived after this task run's application ended are for the next task run.
            own = backfill.store.epochs_of(requester)
            if own.barriers and self.waited_for(_application_of(backfill, own.barriers[-1])):
                own = self._run_own_epochs(backfill, own.barriers[-1], context, epochs)
                return self._summary(backfill, own.barriers, own.commits, context)
            self._report_foreign(backfill, str(self._ended["name"]))
        ran: list[int] = []

        def run(barrier: Barrier) -> EpochCommit:
            ran.append(barrier.epoch)
            if barrier.injected_by != requester:
                return self._run(backfill, barrier)
            return self._run_own_epochs(backfill, barrier, context, epochs).commits[-1]

        self.warn_of_empty_interval(context)
        loop = protocol.EpochLoop(
            store=backfill.store,
            upstream=backfill.upstream,
            requester=requester,
            run=run,
            until=self.until_in(context),
            epochs=epochs,
        )
        for done in itertools.islice(loop, MOST_FOREIGN_BARRIERS + 1):
            if done.barrier is None or done.commit is None:
                return self._nothing_to_run(backfill, done, context, epochs)
            if done.barrier.injected_by == requester:
                own = backfill.store.epochs_of(requester)
                if done.barrier.epoch not in ran:
                    self._report(backfill, own.commits, ran=False)
                return self._summary(backfill, own.barriers, own.commits, context)
            self.log.info("epoch %d was injected by %s", done.barrier.epoch, done.barrier.injected_by)
        raise ConcurrentUpdateError(
            f"other requesters pinned {MOST_FOREIGN_BARRIERS} barriers of job {backfill.job.name} before this task run "
            "could pin one; try again"
        )

    def _nothing_to_run(
        self, backfill: Backfill, injection: Injection, context: Context, epochs: int
    ) -> dict[str, Any]:
        """Log why there is nothing to do; in a retry, return the summary of an earlier try's epochs."""
        self.log.info("nothing to do: %s", injection.reason)
        own = backfill.store.epochs_of(requester_of(context)) if epochs > 1 else TaskRunEpochs()
        if own.commits and own.due is None:
            return self._summary(backfill, own.barriers, own.commits, context)
        self.announce(context, backfill)
        newest = injection.newest
        return no_epoch(injection.reason, progress_after(newest[1], newest[0]) if newest else 0.0)

    def _no_barrier_to_run(self, backfill: Backfill, reason: str, context: Context) -> dict[str, Any]:
        self.log.info("nothing to do: %s", reason)
        self.announce(context, backfill)
        progress, _ = current_progress(backfill.store, backfill.store.settings().incarnation)
        return no_epoch(reason, progress)

    def _run(self, backfill: Backfill, barrier: Barrier) -> EpochCommit:
        """Run one epoch."""
        store = backfill.store

        def done() -> bool:
            commit = store.commit_of(barrier.epoch)
            return commit is not None and not commit.given_up

        require_not_given_up(store.commit_of(barrier.epoch), barrier.job)
        ran = self._submit(backfill, barrier, [], done=done)
        commit = require_not_given_up(store.commit_of(barrier.epoch), barrier.job)
        if commit is None:
            raise _not_committed(backfill, barrier)
        self._report(backfill, [commit], ran=ran)
        return commit

    def _run_own_epochs(self, backfill: Backfill, barrier: Barrier, context: Context, epochs: int) -> TaskRunEpochs:
        """Run a barrier of this task run, and further epochs up to the given number."""
        store, requester = backfill.store, barrier.injected_by

        def done() -> bool:
            own = store.epochs_of(requester)
            return own.due is None and not own.may_pin_another(epochs)

        ran = self._submit(backfill, barrier, _several_epochs_arguments(epochs, self.until_in(context)), done=done)
        own = store.epochs_of(requester)
        if own.due is not None:
            raise _not_committed(backfill, own.due)
        self._report(backfill, own.commits, ran=ran)
        return own

    def _submit(
        self, backfill: Backfill, barrier: Barrier, further: Sequence[str], *, done: Callable[[], bool]
    ) -> bool:
        """
        Run the application from a barrier on. The barrier log decides whether its work is done, not its exit code.

        :param further: the application's arguments after the epoch.
        :param done: reads from the barrier log whether the application's work is done.
        :returns: whether an application ran.
        """
        name = _application_of(backfill, barrier)
        waited = self.waited_for(name)
        if done():
            return waited
        if not waited:
            self.log_plan(backfill, barrier)
        try:
            self.run_application(
                backfill,
                name,
                "backfill_epoch.py",
                ["--state", backfill.job.state, "--epoch", str(barrier.epoch), *further],
                epoch=None if further else barrier.epoch,
                # It is not known how many epochs the application will run.
                rows=None if further else barrier.most_rows,
            )
        except AirflowException as error:
            if not done():
                raise
            self.log.warning("the application failed, but the epoch is committed: %s", error)
        return True

    def _report(self, backfill: Backfill, commits: Sequence[EpochCommit], *, ran: bool) -> None:
        if ran:
            # The application has logged the commits.
            self.report_progress(backfill, commits)
        else:
            self.log.info("committed before: epoch %s", name_of_epochs([commit.epoch for commit in commits]))

    def _report_foreign(self, backfill: Backfill, application: str) -> None:
        """Report the epochs of another requester whose application this task run was deferred for."""
        epoch = epoch_of_application(application)
        epochs = [] if epoch is None else committed(*backfill.store.log(since_epoch=epoch))
        if not epochs or epochs[0].number != epoch:
            return
        asked = epochs[0].barrier.injected_by
        ran = [epoch.commit for epoch in epochs if epoch.barrier.injected_by == asked]
        self.report_progress(backfill, ran if asked.is_task_run else ran[:1])

    def _summary(
        self, backfill: Backfill, barriers: Sequence[Barrier], commits: Sequence[EpochCommit], context: Context
    ) -> dict[str, Any]:
        self.announce(context, backfill, committed(barriers, commits))
        return epochs_summary(barriers, commits, progress_after(commits[-1], barriers[-1]))


def _application_of(backfill: Backfill, barrier: Barrier) -> str:
    """
    Return the name of a barrier's application, from the first epoch that its task run pinned.

    So another try finds the running application, whichever epoch it has reached.
    """
    asked = barrier.injected_by
    own = backfill.store.epochs_of(asked).barriers if asked.is_task_run else (barrier,)
    # If the barrier was given up meanwhile, the task run has no epoch.
    return epoch_application(own[0].epoch if own else barrier.epoch)


def _several_epochs_arguments(epochs: int, until: dt.datetime | None) -> list[str]:
    """Return the arguments of an application that runs several epochs."""
    if epochs == 1:
        return []
    return ["--epochs", str(epochs), *(["--until", until.isoformat()] if until else [])]


def _not_committed(backfill: Backfill, barrier: Barrier) -> EpochFailedError:
    return EpochFailedError(
        f"the application of epoch {barrier.epoch} of job {backfill.job.name} ended without an error, but the barrier "
        f"log at {backfill.job.state} has no commit of it; running it again is safe"
    )
