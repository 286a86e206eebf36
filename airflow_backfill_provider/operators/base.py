"""Base classes of the operators, which open the job, translate errors and run Spark applications."""

from __future__ import annotations

import socket
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from airflow.sdk import BaseOperator, BaseOperatorLink, Context, XComArg
from airflow.sdk.exceptions import AirflowException, AirflowSkipException

from airflow_backfill_provider.assets import emit, view_assets
from airflow_backfill_provider.core.errors import JobNotCreatedError
from airflow_backfill_provider.hooks.backfill import BackfillHook, JobDefinition
from airflow_backfill_provider.hooks.errors import airflow_error, airflow_errors
from airflow_backfill_provider.hooks.task_run import requester_of
from airflow_backfill_provider.operators.links import BackfillLink, MaterializedViewLink, SparkApplicationLink
from airflow_backfill_provider.operators.summaries import epoch_event
from airflow_backfill_provider.triggers.application import SUCCEEDED, SparkApplicationTrigger

if TYPE_CHECKING:
    from airflow_backfill_provider.core.epoch.barrier import Barrier
    from airflow_backfill_provider.core.epoch.epoch_record import EpochCommit
    from airflow_backfill_provider.hooks.applications import ApplicationHook
    from airflow_backfill_provider.jobs.backfill import Backfill


class BackfillOperator(BaseOperator):
    """
    A task about one job. (templated: job)

    :param job: the definition, as an object, its fields, or the path of its YAML file.
    :param backfill_conn_id: the connection with the location of control tables; see
        :class:`~airflow_backfill_provider.hooks.backfill.BackfillHook`.
    """

    template_fields: Sequence[str] = ("job",)
    template_fields_renderers: ClassVar[dict[str, str]] = {"job": "yaml"}
    ui_color = "#dff3e4"
    operator_extra_links: Collection[BaseOperatorLink] = (BackfillLink(), MaterializedViewLink())

    def __init__(
        self,
        *,
        job: JobDefinition | XComArg,
        backfill_conn_id: str = BackfillHook.default_conn_name,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.job: Any = job  # a template or another task may provide it before the task runs
        self.backfill_conn_id = backfill_conn_id
        self._task_run = ""  # unknown if another task calls `execute`

    def pre_execute(self, context: Any) -> None:
        """Note which task run this is. Only Airflow calls this."""
        self._task_run = str(requester_of(context))

    @contextmanager
    def opened(self) -> Iterator[Backfill]:
        """
        Open the job for the block, and translate the package's errors into Airflow's.

        Does not check whether the job was created.
        """
        with airflow_errors():
            yield BackfillHook(self.backfill_conn_id).open(self.job)

    @contextmanager
    def created(self) -> Iterator[Backfill]:
        """
        Open the job for the block, and check that it was created with this definition.

        :raises AirflowFailException: if it was not.
        :raises AirflowSkipException: if it was not, because it waits for the job whose view is its upstream.
        """
        with self.opened() as backfill:
            _require_created(backfill)
            yield backfill

    def emit_finish(self, context: Context, backfill: Backfill, barrier: Barrier, commit: EpochCommit) -> None:
        """Emit the asset events of a view that is finished as of a committed epoch."""
        extra = {"event": "finished", **epoch_event(backfill, barrier, commit)}
        emit(context, self.outlets, view_assets(backfill.job, self.backfill_conn_id), extra)


class SparkBackfillOperator(BackfillOperator):
    """
    A task that may run a Spark application. (templated: job, spark_conn_id, conf)

    If deferrable, the task starts a supervisor for the application and frees its worker slot; a trigger waits for the
    application. A retry after the worker's death finds the running application and starts no second one.

    :param spark_conn_id: a connection to Spark or Spark Connect; ``None`` runs on the worker, with all its cores.
    :param conf: Spark configuration, added to this package's own; with Spark Connect, the session's configuration.
    :param deferrable: whether to wait in the triggerer; otherwise the task run keeps its slot, and the application ends
        with the task run.
    :param poll_interval: seconds between two polls of the trigger.
    """

    template_fields: Sequence[str] = ("job", "spark_conn_id", "conf")
    template_fields_renderers: ClassVar[dict[str, str]] = {"job": "yaml", "conf": "json"}
    operator_extra_links: Collection[BaseOperatorLink] = (
        *BackfillOperator.operator_extra_links,
        SparkApplicationLink(),
    )

    application: str | None = None
    """The name of the task's application; ``None`` if it needed none."""

    def __init__(
        self,
        *,
        spark_conn_id: str | None = None,
        conf: Mapping[str, Any] | None = None,
        deferrable: bool = True,
        poll_interval: float = 2.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.spark_conn_id = spark_conn_id
        self.conf = conf
        self.deferrable = deferrable
        self.poll_interval = poll_interval
        self._stop: Callable[[], None] | None = None
        self._killed = False
        self._ended: Mapping[str, Any] = {}

    def run_application(
        self,
        backfill: Backfill,
        name: str,
        application: str,
        arguments: Sequence[str],
        *,
        epoch: int | None = None,
        rows: int | None = None,
    ) -> None:
        """
        Run one of the applications in ``spark_apps`` to its end.

        If this defers the task, Airflow calls ``execute`` again after the application has ended, and ``execute`` reads
        from the control tables what is left to do. If it calls this method for the same application again, the
        application ended without doing its work.

        :param name: the application's name, unique in the job.
        :param epoch: the epoch, if the application runs one whole epoch.
        :param rows: the most rows that the application reads, if known.
        :raises AirflowException: if the application failed; :class:`AirflowFailException` if it would fail again.
        """
        self.application = name
        if self.waited_for(name):
            ended, self._ended = self._ended, {}
            if ended["outcome"] != SUCCEEDED:
                raise airflow_error(ended["message"], retryable=ended["retryable"])
            return
        from airflow_backfill_provider.hooks.application_log import make_log
        from airflow_backfill_provider.hooks.applications import application_hook
        from airflow_backfill_provider.hooks.connections import connection_variables
        from airflow_backfill_provider.hooks.watched_output import WatchedOutput

        with airflow_errors():
            connections = connection_variables(backfill.job.connection_ids)
        hook = application_hook(
            spark_conn_id=self.spark_conn_id,
            conf=self.conf,
            storage_options=backfill.storage_options,
            name=f"airflow-backfill {backfill.job.name}",
            rows=rows,
            connections=connections,
        )
        if self.deferrable:
            self._supervise(backfill, name, epoch, hook, application, arguments)
        self._stop = hook.on_kill
        self._require_alive(application)
        log = make_log(backfill.job.name, name, uuid.uuid4().hex)
        place = f"{log} on {socket.gethostname()}"
        self.log.info("%s runs in this task; Spark's own output is in %s", name, place)
        with log.open("a", encoding="utf-8") as file:
            hook.run(application, arguments, WatchedOutput(file, place, lambda line: self.log.info("%s", line)))

    def waited_for(self, name: str) -> bool:
        """Return whether the task was deferred for an application that has ended."""
        return self._ended.get("name") == name

    def resume(self, context: Context, event: Mapping[str, Any]) -> Any:
        """Continue after the application for which the task was deferred."""
        self._ended = event
        self.application = event["name"]
        return self.execute(context)

    def on_kill(self) -> None:
        """End the running application, if there is one, and start no other one."""
        self._killed = True
        if self._stop is not None:
            self._stop()

    def _supervise(
        self,
        backfill: Backfill,
        name: str,
        epoch: int | None,
        hook: ApplicationHook,
        application: str,
        arguments: Sequence[str],
    ) -> NoReturn:
        """Start the application under a supervisor, and defer."""
        from airflow_backfill_provider.hooks.supervised_application import SupervisedApplication

        supervised = SupervisedApplication(
            state=backfill.job.state,
            storage_options=backfill.storage_options or {},
            job=backfill.job.name,
            name=name,
            task_run=self._task_run,
        )
        self._stop = supervised.stop
        record = supervised.running()
        if record is None:
            self._require_alive(application)
            record = supervised.start(hook, application, arguments)
            self.log.info("%s runs on %s; Spark's own output is in %s", name, record.host, record.log)
        else:
            self.log.info("%s has been running since %s on %s; waiting for it", name, record.started_at, record.host)
        if self._killed:
            supervised.stop()
            self._require_alive(application)
        trigger = SparkApplicationTrigger(
            state=backfill.job.state,
            name=name,
            epoch=epoch,
            backfill_conn_id=self.backfill_conn_id,
            poll_interval=self.poll_interval,
            attempt=record.attempt,
            waiter=self._task_run,
        )
        self.defer(trigger=trigger, method_name="resume")

    def _require_alive(self, application: str) -> None:
        if self._killed:
            raise AirflowException(f"the task was killed before it submitted {application}")


def _require_created(backfill: Backfill) -> None:
    try:
        backfill.require_created()
    except JobNotCreatedError:
        backfill.require_finished_upstream()
        raise


def cancelled_skip(reason: str) -> AirflowSkipException:
    """Return the exception that skips a task because its job is cancelled, so that scheduled DAG runs don't fail."""
    return AirflowSkipException(f"{reason}. There is nothing to do; pause the DAG if the job stays cancelled")
