"""
Operators of an epoch that several task runs share: apply its changes, read each part of its chunk, check its commit.

The task runs of one barrier are parallel. Each reads the part of the chunk in its own range of vnodes, and the one that
reports last commits the epoch. The barrier has the number of parts, so a rescale needs no change of the DAG.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from airflow.sdk import Context, XComArg
from airflow.sdk.exceptions import AirflowException

from airflow_backfill_provider.core.application import epoch_application
from airflow_backfill_provider.core.epoch.announced import CommittedEpoch
from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.epoch.giving_up import require_not_given_up
from airflow_backfill_provider.core.errors import EpochFailedError, InvalidJobError
from airflow_backfill_provider.jobs.progress import current_progress, progress_after
from airflow_backfill_provider.operators.arguments import epoch_of, is_unset
from airflow_backfill_provider.operators.base import BackfillOperator, SparkBackfillOperator, cancelled_skip
from airflow_backfill_provider.operators.epoch_reporting import EpochReportingOperator
from airflow_backfill_provider.operators.summaries import epochs_summary, no_epoch
from airflow_backfill_provider.telemetry import epoch_log

if TYPE_CHECKING:
    from airflow_backfill_provider.jobs.backfill import Backfill

APPLICATION = "backfill_epoch.py"


class ApplyChangesOperator(SparkBackfillOperator):
    """
    Applies the changes of an epoch that several task runs share. (templated: barrier, and those of the base)

    Starts Spark only if there are changes.

    Returns the list over which :class:`ReadChunkPartOperator` is mapped: one entry for each part of the chunk that is
    not read yet. The list is empty if there is no barrier, or nothing left to do.

    :param barrier: the value that :class:`~airflow_backfill_provider.operators.epoch.InjectBarrierOperator` returned.
    """

    template_fields: Sequence[str] = ("barrier", *SparkBackfillOperator.template_fields)

    def __init__(self, *, barrier: Mapping[str, Any] | int | str | XComArg, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.barrier: Any = barrier

    def execute(self, context: Context) -> list[dict[str, int]]:
        """Apply the changes."""
        from airflow_backfill_provider import protocol

        del context
        with self.created() as backfill:
            barrier = _pinned(backfill, self.barrier)
            if barrier is None:
                self.log.info("there is no barrier to run")
                return []
            if not (_is_done(backfill, barrier, None) or protocol.skip_changes(barrier, store=backfill.store)):
                _submit(self, backfill, barrier, None, ["--step", "apply_changes"])
            left = _left(backfill, barrier)
        self.log.info("the changes of epoch %d are applied; %d parts are left to read", barrier.epoch, len(left))
        return [{"epoch": barrier.epoch, "part": part} for part in left]


class ReadChunkPartOperator(SparkBackfillOperator):
    """
    Reads one part of the chunk of an epoch that several task runs share. (templated: part, and those of the base)

    Returns ``{"epoch": …, "part": …, "rows": …}``. A retry starts no Spark if the part is already read.

    :param part: an entry of the list that :class:`ApplyChangesOperator` returned.
    """

    template_fields: Sequence[str] = ("part", *SparkBackfillOperator.template_fields)

    def __init__(self, *, part: Mapping[str, Any] | XComArg, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.part: Any = part

    def execute(self, context: Context) -> dict[str, int]:
        """Read the part."""
        with self.created() as backfill:
            if not isinstance(self.part, Mapping) or not isinstance(self.part.get("part"), int):
                raise InvalidJobError(
                    f"part: {self.part!r} is not a part of an epoch; give an entry that ApplyChangesOperator returns"
                )
            number, barrier = int(self.part["part"]), backfill.store.pinned(epoch_of(self.part))
            if not _is_done(backfill, barrier, number):
                _submit(self, backfill, barrier, number, ["--step", "read_chunk_part", "--part", str(number)])
            reports = backfill.store.reports(barrier)
        rows = sum(sum(report.rows.values()) for report in reports if report.part == number)
        self.log.info("part %d of epoch %d is read: %d rows", number, barrier.epoch, rows)
        cast("dict[str, Any]", context)["part"] = f"epoch {barrier.epoch}, part {number}"
        return {"epoch": barrier.epoch, "part": number, "rows": rows}


class EpochSummaryOperator(EpochReportingOperator):
    """
    Checks that an epoch is committed; the task run that reported last commits it. (templated: barrier, job)

    Returns the epoch's summary, as :class:`~airflow_backfill_provider.operators.epoch.RunEpochOperator` does.

    :param barrier: the value that :class:`~airflow_backfill_provider.operators.epoch.InjectBarrierOperator` returned.
    :raises AirflowException: if the epoch is not committed.
    """

    template_fields: Sequence[str] = ("barrier", *BackfillOperator.template_fields)

    def __init__(self, *, barrier: Mapping[str, Any] | int | str | XComArg, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.barrier: Any = barrier

    def execute(self, context: Context) -> dict[str, Any]:
        """Check the barrier log."""
        with self.created() as backfill:
            self.begin_announcing(context, backfill)
            barrier = _pinned(backfill, self.barrier)
            if barrier is None:
                return self._no_epoch(context, backfill)
            commit = require_not_given_up(backfill.store.commit_of(barrier.epoch), barrier.job)
            if commit is None:
                raise EpochFailedError(
                    f"epoch {barrier.epoch} of job {backfill.job.name} is not committed; parts that are not read yet: "
                    f"{_left(backfill, barrier) or 'none, so clear the task run that read the last one'}"
                )
            self.log.info("%s", epoch_log.end(commit))
            self.report_progress(backfill, [commit])
            self.announce(context, backfill, [CommittedEpoch(barrier, commit)])
        return epochs_summary([barrier], [commit], progress_after(commit, barrier))

    def _no_epoch(self, context: Context, backfill: Backfill) -> dict[str, Any]:
        """
        Announce what others committed, and return the summary without an epoch.

        :raises AirflowSkipException: if there is nothing to announce and the job is cancelled.
        """
        settings = backfill.settings()
        if not self.announce(context, backfill) and settings.cancelled:
            raise cancelled_skip(f"job {backfill.job.name} was cancelled")
        progress, _ = current_progress(backfill.store, settings.incarnation)
        reason = self.barrier.get("reason") if isinstance(self.barrier, Mapping) else None
        return no_epoch(str(reason or "there is no barrier"), progress)


def _pinned(backfill: Backfill, barrier: Any) -> Barrier | None:
    # If the task that injects barriers was skipped, there is no value at all.
    if is_unset(barrier) or (isinstance(barrier, Mapping) and barrier.get("epoch") is None):
        return None
    return backfill.store.pinned(epoch_of(barrier))


def _left(backfill: Backfill, barrier: Barrier) -> list[int]:
    """Return the parts that are not read yet."""
    if require_not_given_up(backfill.store.commit_of(barrier.epoch), barrier.job) is not None:
        return []
    reported = {report.part for report in backfill.store.reports(barrier)}
    return [part for part in range(len(barrier.parts)) if part not in reported]


def _is_done(backfill: Backfill, barrier: Barrier, part: int | None) -> bool:
    """Return whether a task run has nothing left to do: it has reported, and another one will commit or has."""
    if require_not_given_up(backfill.store.commit_of(barrier.epoch), barrier.job) is not None:
        return True
    reported = {report.part for report in backfill.store.reports(barrier)}
    return part in reported and len(reported) < len(barrier.parts) + 1


def _submit(
    operator: SparkBackfillOperator, backfill: Backfill, barrier: Barrier, part: int | None, step: Sequence[str]
) -> None:
    """Run the application. The barrier log decides whether its step is done, not its exit code."""
    name = epoch_application(barrier.epoch, step="apply_changes" if part is None else "read_chunk_part", part=part)
    arguments = ["--state", backfill.job.state, "--epoch", str(barrier.epoch), *step]
    try:
        operator.run_application(backfill, name, APPLICATION, arguments)
    except AirflowException as error:
        commit = backfill.store.commit_of(barrier.epoch)
        if (commit is not None and commit.given_up) or not _is_done(backfill, barrier, part):
            raise
        operator.log.warning("the application failed, but its step is done: %s", error)
    if not _is_done(backfill, barrier, part):
        raise EpochFailedError(
            f"the application ended without an error, but the barrier log at {backfill.job.state} does not show its "
            f"step of epoch {barrier.epoch}; running it again is safe"
        )
