"""The notifier for callbacks of the tasks and DAGs that run a job."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseNotifier, Context
from airflow.sdk.exceptions import AirflowException

from airflow_backfill_provider.core.epoch.settings import SettingsChange
from airflow_backfill_provider.core.errors import BackfillError
from airflow_backfill_provider.hooks.backfill import BackfillHook, JobDefinition, load_job
from airflow_backfill_provider.hooks.task_run import requester_of
from airflow_backfill_provider.notifications.delivery import Sender, deliver
from airflow_backfill_provider.notifications.events import (
    BackfillEvent,
    EventKind,
    alarm_event,
    failed_event,
    finished_event,
    ready_event,
)

if TYPE_CHECKING:
    from airflow_backfill_provider.core.status.job_status import JobStatus
    from airflow_backfill_provider.jobs.backfill import Backfill

logger = logging.getLogger(__name__)

_WENT_WELL = frozenset({"success", "skipped"})


class BackfillNotifier(BaseNotifier):
    """
    Sends a job's events, with its status, through other notifiers. (templated: job)

    One notifier fits ``on_success_callback``, ``on_failure_callback`` and ``on_skipped_callback`` of tasks and DAGs. It
    sends ``failed`` if the task or the DAG run failed, ``finished`` if it finished the view, and ``stalled``,
    ``headroom``, ``replaced`` and ``view_lost`` while the watchdog has such an alarm, and ``ready`` while something
    waits for an approval. In templates of the other notifiers, the event is ``backfill``, with the fields ``kind``,
    ``job``, ``message``, ``remedy``, ``text`` (all in one sentence) and ``status``.

    Never fails: errors are logged.

    :param job: the definition, as an object, its fields, or the path of its YAML file.
    :param send: the notifiers that get the events, such as
        :class:`~airflow_backfill_provider.notifications.webhook.WebhookNotifier` or any other of Airflow's.
    :param events: the kinds of events to send; by default all.
    :param backfill_conn_id: the connection with the location of control tables.
    """

    template_fields: Sequence[str] = ("job",)

    def __init__(
        self,
        *,
        job: JobDefinition,
        send: Sequence[Sender],
        events: Sequence[str] = tuple(EventKind),
        backfill_conn_id: str = BackfillHook.default_conn_name,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.job: Any = job
        self.send = send
        self.events = frozenset(EventKind(event) for event in events)
        self.backfill_conn_id = backfill_conn_id

    def __call__(self, *args: Any) -> None:
        """Send the events of a callback, if there are any."""
        try:
            super().__call__(*args)
        except Exception:
            logger.exception("no notification was sent")

    def notify(self, context: Context) -> None:
        """Send the events of a callback, if there are any."""
        for event in self._events(context):
            if event.kind in self.events:
                deliver(event, self.send, context)

    async def async_notify(self, context: Context) -> None:
        """Send the events in a thread, because control tables are read without asyncio."""
        await asyncio.to_thread(self.notify, context)

    def _events(self, context: Context) -> Iterator[BackfillEvent]:
        backfill, status = self._look()
        if _failed(context):
            name = load_job(self.job).name if backfill is None else backfill.job.name
            yield failed_event(name, _subject(context), _reason(context), status)
        if backfill is None or status is None:
            return
        finished_epoch = _finished_by(context, backfill)
        if finished_epoch is not None:
            yield finished_event(status, backfill.job.materialized_view, finished_epoch)
        if (ready := ready_event(status)) is not None:
            yield ready
        for alarm in status.alarms:
            yield alarm_event(status, alarm)

    def _look(self) -> tuple[Backfill | None, JobStatus | None]:
        """Return the job and its status, as far as they can be read; the task may have failed to read them."""
        backfill = None
        try:
            backfill = BackfillHook(self.backfill_conn_id).open(self.job)
            return backfill, backfill.status()
        except BackfillError as error:
            logger.warning("the job's status is unknown: %s", error)
            return backfill, None


def _failed(context: Any) -> bool:
    """Return whether a callback is about a failure. If the worker of a task died, there is no exception."""
    if _of_dag(context):
        return bool(context.get("reason") != "success")
    return str(getattr(context["ti"], "state", None) or "") not in _WENT_WELL


def _finished_by(context: Any, backfill: Backfill) -> int | None:
    """Return as of which epoch the callback's task, or a task of its DAG run, finished the view; ``None`` if not."""
    history = backfill.store.settings_history()
    epoch = history[-1].finished_epoch
    if epoch is None:
        return None
    finisher = next(record.requested_by for record in reversed(history) if record.change is SettingsChange.FINISH)
    if _of_dag(context):
        ours = finisher.startswith(f"{_dag_id(context)}.") and finisher.endswith(f" of run {_run_id(context)}")
    else:
        ours = finisher == str(requester_of(context))
    return epoch if ours else None


def _of_dag(context: Any) -> bool:
    """Return whether a callback is a DAG's, not a task's; a DAG's context may also have the DAG run's last task."""
    return "reason" in context or context.get("ti") is None


def _subject(context: Any) -> str:
    return f"DAG run {_run_id(context)} of {_dag_id(context)}" if _of_dag(context) else f"task {requester_of(context)}"


def _reason(context: Any) -> str:
    """Return why it failed. Messages of other errors than this package's and Airflow's may hold rows or secrets."""
    error = context.get("exception")
    if isinstance(error, AirflowException | BackfillError):
        return str(error)
    if error is not None:
        return error if isinstance(error, str) else type(error).__name__
    return str(context.get("reason") or "")


def _dag_id(context: Any) -> str:
    return str(context["ti"].dag_id if context.get("ti") is not None else context["dag"].dag_id)


def _run_id(context: Any) -> str:
    return str(context["ti"].run_id if context.get("ti") is not None else context["run_id"])
