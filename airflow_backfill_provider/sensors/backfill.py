"""
Sensors that read a job's control tables. Their three modes (poke, reschedule and deferrable) have the same results.

They also wait for a job that is not created yet. If the job is cancelled before they succeed, they fail without
retries.
"""

from __future__ import annotations

import datetime as dt
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from airflow.sdk import BaseSensorOperator, Context, PokeReturnValue, XComArg, conf

from airflow_backfill_provider.hooks.backfill import BackfillHook, JobDefinition
from airflow_backfill_provider.hooks.errors import airflow_error, airflow_errors
from airflow_backfill_provider.operators.arguments import age_of, epoch_of, fraction_of, is_unset, vnodes_of
from airflow_backfill_provider.triggers.backfill import (
    REACHED,
    BackfillProgressTrigger,
    BackfillTrigger,
    EpochCommittedTrigger,
    MaterializedViewFinishedTrigger,
    MaterializedViewVerifiedTrigger,
    VnodesCompletedTrigger,
)


class BackfillSensor(BaseSensorOperator):
    """
    Waits for a job to reach a state. (templated: job)

    :param job: the definition, as an object, its fields, or the path of its YAML file.
    :param backfill_conn_id: the connection with the location of control tables; see
        :class:`~airflow_backfill_provider.hooks.backfill.BackfillHook`.
    :param deferrable: whether to wait in the triggerer; by default Airflow's ``[operators] default_deferrable``.
    """

    template_fields: Sequence[str] = ("job",)

    def __init__(
        self,
        *,
        job: JobDefinition | XComArg,
        backfill_conn_id: str = BackfillHook.default_conn_name,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.job: Any = job  # a template or another task may provide it before the task runs
        self.backfill_conn_id = backfill_conn_id
        self.deferrable = deferrable

    @abstractmethod
    def trigger(self, **common: Any) -> BackfillTrigger:
        """Return the trigger with the sensor's condition."""

    def poke(self, context: Context) -> PokeReturnValue:
        """Check once; a deferrable sensor leaves further checks to its trigger."""
        del context
        with airflow_errors():
            backfill = BackfillHook(self.backfill_conn_id).open(self.job)
            trigger = self.trigger(
                state=backfill.job.state,
                backfill_conn_id=self.backfill_conn_id,
                poll_interval=self.poke_interval,
            )
            observation = trigger.look()
        self.log.info("%s", observation.note)
        if observation.value is None and self.deferrable:
            self.defer(trigger=trigger, method_name="execute_complete", timeout=dt.timedelta(seconds=self.timeout))
        return PokeReturnValue(observation.value is not None, observation.value)

    def execute_complete(self, context: Context, event: Mapping[str, Any]) -> dict[str, Any]:
        """Succeed or fail according to the trigger's event."""
        del context
        if event["outcome"] != REACHED:
            raise airflow_error(event["message"], retryable=event["retryable"])
        return dict(event["value"])


class MaterializedViewFinishedSensor(BackfillSensor):
    """
    Waits until the materialized view is marked finished.

    Returns ``{"epoch": …}``, the epoch that completed the last vnode.
    """

    def trigger(self, **common: Any) -> BackfillTrigger:
        """Return the trigger that waits for the view."""
        return MaterializedViewFinishedTrigger(**common)


class EpochCommittedSensor(BackfillSensor):
    """
    Waits until an epoch is committed. (templated: epoch, job)

    Returns ``{"epoch": …}``.

    :param epoch: the epoch's number, or the value that a barrier task returned.
    """

    template_fields: Sequence[str] = ("epoch", *BackfillSensor.template_fields)

    def __init__(self, *, epoch: Mapping[str, Any] | int | str | XComArg, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.epoch = epoch

    def trigger(self, **common: Any) -> BackfillTrigger:
        """Return the trigger that waits for the epoch."""
        return EpochCommittedTrigger(epoch=epoch_of(self.epoch), **common)


class BackfillProgressSensor(BackfillSensor):
    """
    Waits until a share of the upstream's rows is read. (templated: at_least, job)

    Returns ``{"progress": …, "epoch": …}``.

    :param at_least: the share, from 0 to 1; 1 is reached once every vnode is Completed, and the view does not
        wait for an approval.
    """

    template_fields: Sequence[str] = ("at_least", *BackfillSensor.template_fields)

    def __init__(self, *, at_least: float | str | XComArg = 0.5, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.at_least = at_least

    def trigger(self, **common: Any) -> BackfillTrigger:
        """Return the trigger that waits for the share."""
        return BackfillProgressTrigger(at_least=fraction_of(self.at_least), **common)


class VnodesCompletedSensor(BackfillSensor):
    """
    Waits until chosen vnodes are Completed: all their rows are in the view. (templated: vnodes, job)

    Returns ``{"vnodes": …, "epoch": …}``.

    :param vnodes: numbers and ranges, such as ``"0-15"`` or ``[3, "8-15"]``.
    """

    template_fields: Sequence[str] = ("vnodes", *BackfillSensor.template_fields)

    def __init__(self, *, vnodes: Sequence[int | str] | str | XComArg, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.vnodes = vnodes

    def trigger(self, **common: Any) -> BackfillTrigger:
        """Return the trigger that waits for the vnodes."""
        return VnodesCompletedTrigger(vnodes=vnodes_of(self.vnodes), **common)


class MaterializedViewVerifiedSensor(BackfillSensor):
    """
    Waits until a verification finds that the materialized view is right. (templated: max_age, epoch, job)

    Fails without retries if the newest verification meets ``max_age`` and ``epoch`` and found a difference.

    Returns ``{"epoch": …, "verified_at": …}``.

    :param max_age: the longest time since the end of the verification, as a duration or in seconds; by default any.
    :param epoch: the earliest verified epoch that counts, as a number or the value that a barrier task returned; by
        default any.
    """

    template_fields: Sequence[str] = ("max_age", "epoch", *BackfillSensor.template_fields)

    def __init__(
        self,
        *,
        max_age: dt.timedelta | float | str | XComArg | None = None,
        epoch: Mapping[str, Any] | int | str | XComArg | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.max_age: Any = max_age
        self.epoch: Any = epoch

    def trigger(self, **common: Any) -> BackfillTrigger:
        """Return the trigger that waits for the verification."""
        epoch = None if is_unset(self.epoch) else epoch_of(self.epoch)
        return MaterializedViewVerifiedTrigger(max_age=age_of(self.max_age), epoch=epoch, **common)
