"""The operator that finds jobs that have stalled, or will lose changes that they have not read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from airflow.sdk import BaseOperator, Context
from airflow.sdk.exceptions import AirflowFailException

from airflow_backfill_provider.core.errors import BackfillError, JobNotCreatedError
from airflow_backfill_provider.hooks.backfill import BackfillHook, JobDefinition
from airflow_backfill_provider.hooks.errors import airflow_error
from airflow_backfill_provider.notifications.delivery import Sender, deliver
from airflow_backfill_provider.notifications.events import BackfillEvent, EventKind, alarm_event, ready_event

ALARMS = "alarms"
"""The XCom with the alarms; it exists even if the task fails because of them."""


class BackfillWatchdogOperator(BaseOperator):
    """
    Checks jobs, and reports the watchdog's alarms. (templated: jobs)

    Reads only control tables and logs, which takes milliseconds per job. Notifies of an alarm only if the previous DAG
    run, by logical date, did not have it. Skips jobs that are not created yet. If a job cannot be read, the others are
    still checked. What is ready and waits for an approval is reported in the same way; it is no alarm, and fails
    nothing.

    Returns the alarms and what waits, each with ``job``, ``kind``, ``message`` and ``remedy``. The XCom ``alarms`` also
    has them, even if the task fails.

    :param jobs: the definitions, each as an object, its fields, or the path of its YAML file.
    :param send: the notifiers that get the alarms.
    :param on_alarm: whether the task should ``fail``, without retries, or ``succeed`` if there is an alarm.
    :param backfill_conn_id: the connection with the location of control tables.
    """

    template_fields: Sequence[str] = ("jobs",)
    ui_color = "#fdebd0"

    def __init__(
        self,
        *,
        jobs: Sequence[JobDefinition],
        send: Sequence[Sender] = (),
        on_alarm: Literal["fail", "succeed"] = "fail",
        backfill_conn_id: str = BackfillHook.default_conn_name,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.jobs: Any = jobs
        self.send = send
        self.on_alarm = on_alarm
        self.backfill_conn_id = backfill_conn_id

    def execute(self, context: Context) -> list[dict[str, str]]:
        """Check the jobs."""
        unreadable: list[BackfillError] = []
        events = list(self._events(unreadable))
        known = self._alarms_of_previous_run(context)
        for event in events:
            self.log.warning("%s", event.text)
            if (event.job, str(event.kind)) not in known:
                deliver(event, self.send, context)
        alarms = [event.model_dump(mode="json", exclude={"status"}) for event in events]
        context["ti"].xcom_push(key=ALARMS, value=alarms)
        if unreadable:
            retryable = all(error.retryable for error in unreadable)
            raise airflow_error("; ".join(map(str, unreadable)), retryable=retryable)
        problems = [event.text for event in events if event.kind is not EventKind.READY]
        if problems and self.on_alarm == "fail":
            raise AirflowFailException("; ".join(problems))
        return alarms

    def _events(self, unreadable: list[BackfillError]) -> Iterator[BackfillEvent]:
        hook = BackfillHook(self.backfill_conn_id)
        for job in self.jobs:
            try:
                status = hook.open(job).status()
            except JobNotCreatedError as error:
                self.log.info("%s", error)
            except BackfillError as error:
                self.log.error("%s", error)  # noqa: TRY400 - the error's text is enough
                unreadable.append(error)
            else:
                yield from (alarm_event(status, alarm) for alarm in status.alarms)
                if (ready := ready_event(status)) is not None:
                    yield ready

    def _alarms_of_previous_run(self, context: Context) -> set[tuple[str, str]]:
        """Return job and kind of each alarm of the previous DAG run."""
        before = context["ti"].xcom_pull(task_ids=self.task_id, key=ALARMS, include_prior_dates=True)
        alarms = before if isinstance(before, Sequence) else ()
        return {(str(alarm.get("job")), str(alarm.get("kind"))) for alarm in alarms if isinstance(alarm, Mapping)}
