"""What the operators share: the job they are about, its connections, and errors as Airflow wants them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator, Context, XComArg
from airflow.sdk.exceptions import AirflowException

from airflow_backfill_provider.assets import emit, materialized_view_asset, view_assets
from airflow_backfill_provider.hooks.backfill import BackfillHook, JobDefinition
from airflow_backfill_provider.hooks.errors import airflow_errors
from airflow_backfill_provider.operators.summaries import epoch_event

if TYPE_CHECKING:
    from airflow_backfill_provider.backfill import Backfill
    from airflow_backfill_provider.core.barrier import Barrier, EpochCommit
    from airflow_backfill_provider.hooks.spark_application import SparkApplicationHook


class BackfillOperator(BaseOperator):
    """
    A task about one job. (templated: job)

    :param job: the definition, as an object, its fields, or the path of its YAML file.
    :param backfill_conn_id: the connection that says where control tables lie; see
        :class:`~airflow_backfill_provider.hooks.backfill.BackfillHook`.
    """

    template_fields: Sequence[str] = ("job",)
    ui_color = "#dff3e4"

    def __init__(
        self,
        *,
        job: JobDefinition | XComArg,
        backfill_conn_id: str = BackfillHook.default_conn_name,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.job: Any = job  # whatever a template or a task gave, by the time that it is used
        self.backfill_conn_id = backfill_conn_id

    @contextmanager
    def opened(self) -> Iterator[Backfill]:
        """
        Open the job for the block; the package's errors leave it as Airflow's.

        Whether the job was created is not looked at.
        """
        with airflow_errors():
            yield BackfillHook(self.backfill_conn_id).open(self.job)

    @contextmanager
    def created(self) -> Iterator[Backfill]:
        """
        Open the job for the block, and refuse one that was not created with this very definition.

        :raises AirflowFailException: if it was not.
        """
        with self.opened() as backfill:
            backfill.require_created()
            yield backfill

    def emit_epoch(self, context: Context, backfill: Backfill, barrier: Barrier, commit: EpochCommit) -> None:
        """Tell those who wait for the view of a committed epoch, through the task's outlets."""
        extra = {"event": "epoch", **epoch_event(backfill, barrier, commit)}
        emit(context, self.outlets, [materialized_view_asset(backfill.job, self.backfill_conn_id)], extra)

    def emit_finish(self, context: Context, backfill: Backfill, barrier: Barrier, commit: EpochCommit) -> None:
        """Tell those who wait for the view, or for its end alone, that it is finished as of a committed epoch."""
        extra = {"event": "finished", **epoch_event(backfill, barrier, commit)}
        emit(context, self.outlets, view_assets(backfill.job, self.backfill_conn_id), extra)


class SparkBackfillOperator(BackfillOperator):
    """
    A task that may submit a Spark application. (templated: job, spark_conn_id, conf)

    :param spark_conn_id: a Spark connection; ``None`` runs on the worker, with all its cores.
    :param conf: Spark configuration on top of this package's own.
    """

    template_fields: Sequence[str] = ("job", "spark_conn_id", "conf")

    def __init__(
        self, *, spark_conn_id: str | None = None, conf: Mapping[str, Any] | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.spark_conn_id = spark_conn_id
        self.conf = conf
        self._application: SparkApplicationHook | None = None
        self._killed = False

    def submit(self, backfill: Backfill, application: str, arguments: Sequence[str]) -> None:
        """
        Run one of the applications in ``spark_apps`` to its end.

        :raises AirflowException: if it failed; :class:`AirflowFailException` if it would fail again.
        """
        from airflow_backfill_provider.hooks.spark_application import SparkApplicationHook

        self._application = SparkApplicationHook(
            spark_conn_id=self.spark_conn_id,
            conf=self.conf,
            storage_options=backfill.storage_options,
            name=f"airflow-backfill {backfill.job.name}",
        )
        if self._killed:
            raise AirflowException(f"the task was killed before it submitted {application}")
        self._application.run(application, arguments)

    def on_kill(self) -> None:
        """End the application, if one runs, and start none any more."""
        self._killed = True
        if self._application is not None:
            self._application.on_kill()
