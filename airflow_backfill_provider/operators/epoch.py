"""Operators of one epoch: inject its barrier, and run it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from airflow.sdk import Context, XComArg
from airflow.sdk.exceptions import AirflowException

from airflow_backfill_provider.core.application import epoch_application
from airflow_backfill_provider.core.barrier import Barrier, EpochCommit, Requester
from airflow_backfill_provider.core.errors import ConcurrentUpdateError, EpochFailedError
from airflow_backfill_provider.hooks.progress import current_progress, progress_after
from airflow_backfill_provider.operators.arguments import epoch_of, is_unset
from airflow_backfill_provider.operators.base import SparkBackfillOperator
from airflow_backfill_provider.operators.summaries import barrier_summary, epoch_summary, no_barrier, no_epoch
from airflow_backfill_provider.operators.task_run import interval_of_no_length, requester_of, until_of
from airflow_backfill_provider.operators.telling import EpochTellingOperator

if TYPE_CHECKING:
    from airflow_backfill_provider.backfill import Backfill
    from airflow_backfill_provider.protocol import Injection

MOST_OF_OTHERS = 10
"""Barriers of others that one task run completes at most before its own."""


class _InjectingOperator(EpochTellingOperator):
    """A task that may pin a barrier."""

    def inject(self, backfill: Backfill, context: Context, requester: Requester) -> Injection:
        """Pin the next barrier on behalf of a requester, or find the one that is due."""
        from airflow_backfill_provider import protocol

        note = interval_of_no_length(context)
        if note is not None:
            self.log.warning("%s", note)
        return protocol.inject_barrier(
            store=backfill.store, upstream=backfill.upstream, requester=requester, until=until_of(context)
        )


class InjectBarrierOperator(_InjectingOperator):
    """
    Pins the next barrier, in milliseconds and without Spark; another task runs it.

    A retry or a cleared task finds the barrier that it pinned before. A barrier that somebody pinned and nobody
    committed is returned instead of a new one. In a run of a schedule or of an Airflow backfill, the epoch's
    window ends at the run's ``data_interval_end``; in any other run, at the upstream's newest version.

    Returns the barrier's summary, for :class:`RunEpochOperator`; its ``epoch`` is ``None`` if there is nothing to do.
    """

    def execute(self, context: Context) -> dict[str, Any]:
        """Pin the barrier."""
        with self.created() as backfill:
            injection = self.inject(backfill, context, requester_of(context))
        if injection.barrier is None:
            self.log.info("nothing to do: %s", injection.reason)
            return no_barrier(injection.reason)
        self.tell_plan(backfill, injection.barrier)
        return barrier_summary(injection.barrier)


class RunEpochOperator(SparkBackfillOperator, _InjectingOperator):
    """
    Runs one epoch: one barrier, one run of the Spark application. (templated: barrier, and those of the base)

    Starts Spark only if there is something to do: a window that is covered already, or an epoch that is
    committed already, makes it succeed at once. What the application says of itself is not believed; the epoch is done
    once the barrier log says so. If somebody else's barrier is due, a failed run's say, it is completed first.

    Returns the epoch's summary (``epoch, from_version, to_version, rows, changes, progress, finished``); ``epoch`` is
    ``None`` if there was nothing to do, and ``reason`` says why. With
    :data:`~airflow_backfill_provider.assets.MATERIALIZED_VIEWS` among its outlets, the view's asset gets an event for
    every epoch; a retry may repeat one.

    :param barrier: the epoch to run, as a number or as :class:`InjectBarrierOperator` returns it; ``None`` injects one
        on behalf of this task run, with the rules of that operator.
    """

    template_fields: Sequence[str] = ("barrier", *SparkBackfillOperator.template_fields)

    def __init__(self, *, barrier: Mapping[str, Any] | int | str | XComArg | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.barrier: Any = barrier

    def execute(self, context: Context) -> dict[str, Any]:
        """Run the epoch."""
        with self.created() as backfill:
            if is_unset(self.barrier):
                summary = self._run_own(backfill, context)
            elif isinstance(self.barrier, Mapping) and self.barrier.get("epoch") is None:
                summary = self._run_none(backfill, str(self.barrier.get("reason", "there is no barrier")))
            else:
                summary = self._run(backfill, backfill.store.pinned(epoch_of(self.barrier)), context)
        # What a mapped task run is called in the grid; see map_index_template.
        cast("dict[str, Any]", context)["epoch"] = "nothing to do" if summary["epoch"] is None else summary["epoch"]
        return summary

    def _run_own(self, backfill: Backfill, context: Context) -> dict[str, Any]:
        """Inject until the barrier is this task run's own, and run each."""
        requester = requester_of(context)
        for _ in range(MOST_OF_OTHERS):
            injection = self.inject(backfill, context, requester)
            if injection.barrier is None:
                return self._run_none(backfill, injection.reason)
            summary = self._run(backfill, injection.barrier, context)
            if injection.barrier.injected_by == requester:
                return summary
            self.log.info("epoch %d was of %s", injection.barrier.epoch, injection.barrier.injected_by)
        raise ConcurrentUpdateError(
            f"others pinned {MOST_OF_OTHERS} barriers of job {backfill.job.name} before this task run could pin its "
            "own; try again"
        )

    def _run_none(self, backfill: Backfill, reason: str) -> dict[str, Any]:
        self.log.info("nothing to do: %s", reason)
        progress, _ = current_progress(backfill.store, backfill.store.settings().incarnation)
        return no_epoch(reason, progress)

    def _run(self, backfill: Backfill, barrier: Barrier, context: Context) -> dict[str, Any]:
        commit = backfill.store.commit_of(barrier.epoch)
        waited = self.waited_for(epoch_application(barrier.epoch))
        if commit is None:
            if not waited:
                self.tell_plan(backfill, barrier)
            commit, waited = self._submit_epoch(backfill, barrier.epoch), True
        if waited:
            self.tell_commit(backfill, barrier, commit)
        else:
            self.log.info("epoch %d was committed before", commit.epoch)
        self.emit_epoch(context, backfill, barrier, commit)
        return epoch_summary(barrier, commit, progress_after(commit, barrier))

    def _submit_epoch(self, backfill: Backfill, epoch: int) -> EpochCommit:
        """Run the application; whatever becomes of it, the barrier log tells whether the epoch is committed."""
        try:
            self.run_application(
                backfill,
                epoch_application(epoch),
                "backfill_epoch.py",
                ["--state", backfill.job.state, "--epoch", str(epoch)],
                epoch=epoch,
            )
        except AirflowException as error:
            commit = backfill.store.commit_of(epoch)
            if commit is None:
                raise
            self.log.warning("the application failed after the commit, or beside another that committed: %s", error)
            return commit
        commit = backfill.store.commit_of(epoch)
        if commit is None:
            raise EpochFailedError(
                f"the application of epoch {epoch} of job {backfill.job.name} ended without an error, but the barrier "
                f"log at {backfill.job.state} holds no commit; running it again is safe"
            )
        return commit
