"""Task groups of a backfill: create the job, run its epochs in order, finish the view, compact its files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow.sdk import Asset, AssetAlias, TaskGroup, XComArg, chain

from airflow_backfill_provider.assets import MATERIALIZED_VIEWS, view_assets
from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.hooks.backfill import BackfillHook, JobDefinition, load_job
from airflow_backfill_provider.operators.arguments import epochs_per_run_of
from airflow_backfill_provider.operators.compaction import CompactMaterializedViewOperator
from airflow_backfill_provider.operators.epoch import InjectBarrierOperator, RunEpochOperator
from airflow_backfill_provider.operators.finish import FinishMaterializedViewWhenDueOperator
from airflow_backfill_provider.operators.job import CreateBackfillJobOperator
from airflow_backfill_provider.operators.rebuild import RunRebuildEpochsOperator
from airflow_backfill_provider.operators.shared_epoch import (
    ApplyChangesOperator,
    EpochSummaryOperator,
    ReadChunkPartOperator,
)


class BackfillTaskGroup(TaskGroup):
    """
    Creates a job, runs some of its epochs one after another, and finishes the view once every vnode is Completed.

    Each DAG run runs some epochs, by its barriers; later DAG runs keep the view fresh. The tasks are the attributes
    ``create``, ``epochs`` (mapped, one task run per barrier), ``finish``, ``compact`` (``None`` without ``compact_at``)
    and ``rebuild`` (as many epochs of a rebuild that keeps the view in service; skipped without one).

    :param group_id: the group's id.
    :param job: the definition; a path is read when the DAG is parsed. Or the output of a task that returns one.
    :param barriers: how many task runs a DAG run has, each with its own Spark application. Or the output of a task that
        returns a list with an entry for each of them: the one epoch to run, or ``None`` to inject the next one.
    :param epochs_per_run: how many epochs each of these task runs injects and runs at most, one after another in one
        Spark application. A DAG run runs up to ``barriers`` times as many.
    :param compact_at: after the epochs, compact the view's files if that saves at least this many files; ``None`` never
        compacts them here.
    :param backfill_conn_id: the connection that says where control tables lie.
    :param spark_conn_id: a connection of Spark or Spark Connect; ``None`` runs on the worker, with all its cores.
    :param conf: Spark configuration, added to this package's own.
    :param deferrable: whether tasks wait for Spark without a worker slot; see
        :class:`~airflow_backfill_provider.operators.base.SparkBackfillOperator`.
    :param until: the instant that upstreams are read as of in DAG runs without a data interval; see
        :class:`~airflow_backfill_provider.operators.epoch.InjectBarrierOperator`.
    :param create_trigger_rule: when the first task runs, by the tasks before the group; ``none_failed`` after the group
        of the job whose view this one reads, because its last tasks are skipped if there is nothing to do.
    :param group: further arguments of Airflow's task group.
    :raises InvalidJobError: if ``epochs_per_run`` is not a number of epochs.
    """

    def __init__(  # noqa: PLR0913 - what a user may set for the tasks
        self,
        group_id: str = "backfill",
        *,
        job: JobDefinition | XComArg,
        barriers: int | XComArg = 1,
        epochs_per_run: int | str = 1,
        compact_at: int | None = None,
        backfill_conn_id: str = BackfillHook.default_conn_name,
        spark_conn_id: str | None = None,
        conf: Mapping[str, Any] | None = None,
        deferrable: bool = True,
        until: str | None = None,
        create_trigger_rule: str = "all_success",
        **group: Any,
    ) -> None:
        if isinstance(epochs_per_run, int):
            epochs_per_run_of(epochs_per_run)
        super().__init__(group_id=group_id, **group)
        definition, views = _definition(job, backfill_conn_id)
        about: dict[str, Any] = {"job": definition, "backfill_conn_id": backfill_conn_id}
        spark: dict[str, Any] = {"spark_conn_id": spark_conn_id, "conf": conf, "deferrable": deferrable}
        with self:
            self.create = CreateBackfillJobOperator(
                task_id="create_job", trigger_rule=create_trigger_rule, **about, **spark
            )
            self.epochs = RunEpochOperator.partial(
                task_id="run_epoch",
                # Barriers are pinned and run in order; a second task run would only wait for the first.
                max_active_tis_per_dagrun=1,
                map_index_template="{{ epoch }}",
                outlets=[MATERIALIZED_VIEWS],
                epochs_per_run=epochs_per_run,
                until=until,
                **about,
                **spark,
            ).expand(barrier=[None] * barriers if isinstance(barriers, int) else barriers)
            self.finish = FinishMaterializedViewWhenDueOperator(task_id="finish_view", outlets=views, **about)
            self.compact = _compaction(compact_at, about, spark)
            self.rebuild = _rebuild(_epochs_of(barriers, epochs_per_run), about, spark)
        _in_order([self.create, self.epochs], self.finish, self.compact, self.rebuild)


class ParallelBackfillTaskGroup(TaskGroup):
    """
    As :class:`BackfillTaskGroup`, but parallel task runs share each epoch, one for each range of vnodes.

    The job's parallelism at the time when a barrier is pinned is the number of task runs, so a rescale needs no change
    of the DAG. Each task run has its own Spark application, for its part of one epoch, so ``epochs_per_run`` must be 1.
    The tasks are the attributes ``create``, ``epochs`` (one group of tasks per barrier), ``finish``, ``compact``
    (``None`` without ``compact_at``) and ``rebuild`` (as many epochs of a rebuild that keeps the view in service, each
    as a whole; skipped without one).

    :param group_id: the group's id.
    :param job: the definition; a path is read when the DAG is parsed. Or the output of a task that returns one.
    :param barriers: how many epochs a DAG run runs.
    :param epochs_per_run: must be 1; a Spark application runs only its part of one epoch.
    :param compact_at: after the epochs, compact the view's files if that saves at least this many files; ``None`` never
        compacts them here.
    :param backfill_conn_id: the connection that says where control tables lie.
    :param spark_conn_id: a connection of Spark or Spark Connect; ``None`` runs on the workers, with all their cores.
    :param conf: Spark configuration, added to this package's own.
    :param deferrable: whether tasks wait for Spark without a worker slot; see
        :class:`~airflow_backfill_provider.operators.base.SparkBackfillOperator`.
    :param until: the instant that upstreams are read as of in DAG runs without a data interval; see
        :class:`~airflow_backfill_provider.operators.epoch.InjectBarrierOperator`.
    :param create_trigger_rule: when the first task runs, by the tasks before the group; ``none_failed`` after the group
        of the job whose view this one reads, because its last tasks are skipped if there is nothing to do.
    :param group: further arguments of Airflow's task group.
    :raises InvalidJobError: if ``epochs_per_run`` is not 1.
    """

    def __init__(  # noqa: PLR0913 - what a user may set for the tasks
        self,
        group_id: str = "backfill",
        *,
        job: JobDefinition | XComArg,
        barriers: int = 1,
        epochs_per_run: int = 1,
        compact_at: int | None = None,
        backfill_conn_id: str = BackfillHook.default_conn_name,
        spark_conn_id: str | None = None,
        conf: Mapping[str, Any] | None = None,
        deferrable: bool = True,
        until: str | None = None,
        create_trigger_rule: str = "all_success",
        **group: Any,
    ) -> None:
        if epochs_per_run != 1:
            raise InvalidJobError(
                f"epochs_per_run: {epochs_per_run!r} is not possible where task runs share an epoch, because each of "
                "them has a Spark application for its part of one epoch; use barriers for more epochs in a DAG run, or "
                "a job with parallelism 1"
            )
        super().__init__(group_id=group_id, **group)
        definition, views = _definition(job, backfill_conn_id)
        about: dict[str, Any] = {"job": definition, "backfill_conn_id": backfill_conn_id}
        spark: dict[str, Any] = {"spark_conn_id": spark_conn_id, "conf": conf, "deferrable": deferrable}
        with self:
            self.create = CreateBackfillJobOperator(
                task_id="create_job", trigger_rule=create_trigger_rule, **about, **spark
            )
            self.epochs = [_shared_epoch(number, until, about, spark) for number in range(1, barriers + 1)]
            self.finish = FinishMaterializedViewWhenDueOperator(task_id="finish_view", outlets=views, **about)
            self.compact = _compaction(compact_at, about, spark)
            self.rebuild = _rebuild(barriers, about, spark)
        _in_order([self.create, *self.epochs], self.finish, self.compact, self.rebuild)


def _shared_epoch(number: int, until: str | None, about: Mapping[str, Any], spark: Mapping[str, Any]) -> TaskGroup:
    """Return the tasks of one barrier: inject it, apply its changes, read its parts in parallel, check the commit."""
    with TaskGroup(f"epoch_{number}") as epoch:
        inject = InjectBarrierOperator(task_id="inject", until=until, **about)
        changes = ApplyChangesOperator(task_id="apply_changes", barrier=inject.output, **about, **spark)
        parts = ReadChunkPartOperator.partial(
            task_id="read_chunk_part",
            map_index_template="{{ part }}",
            # These task runs must be parallel; the DAG's default arguments allow one task run of each task.
            max_active_tis_per_dag=None,
            **about,
            **spark,
        ).expand(part=changes.output)
        # An epoch without parts, such as one of a paused job, skips the mapped task.
        summary = EpochSummaryOperator(
            task_id="summary", barrier=inject.output, trigger_rule="none_failed", outlets=[MATERIALIZED_VIEWS], **about
        )
        inject >> changes >> parts >> summary
    return epoch


def _in_order(
    epochs: Sequence[Any], finish: Any, compact: CompactMaterializedViewOperator | None, rebuild: Any
) -> None:
    chain(*epochs, finish)
    # One after another, because each of them may start a Spark application on the same worker.
    chain(epochs[-1], *([] if compact is None else [compact]), rebuild)


def _rebuild(epochs: int | str, about: Mapping[str, Any], spark: Mapping[str, Any]) -> RunRebuildEpochsOperator:
    # Also after failed epochs: what stops them may be what the rebuild mends, such as another table at the path.
    return RunRebuildEpochsOperator(
        task_id="run_rebuild", epochs_per_run=epochs, trigger_rule="all_done", **about, **spark
    )


def _epochs_of(barriers: int | XComArg, epochs_per_run: int | str) -> int | str:
    """Return how many epochs a DAG run runs, as far as that is known when it is parsed."""
    if isinstance(barriers, int) and isinstance(epochs_per_run, int):
        return barriers * epochs_per_run
    return epochs_per_run


def _compaction(
    at: int | None, about: Mapping[str, Any], spark: Mapping[str, Any]
) -> CompactMaterializedViewOperator | None:
    if at is None:
        return None
    return CompactMaterializedViewOperator(task_id="compact_view", compact_at=at, **about, **spark)


def _definition(job: JobDefinition | XComArg, backfill_conn_id: str) -> tuple[Any, Sequence[Asset | AssetAlias]]:
    """Return the job, and the outlets of the task that finishes its view."""
    if isinstance(job, XComArg):
        return job, [MATERIALIZED_VIEWS]
    loaded = load_job(job)
    return loaded, view_assets(loaded, backfill_conn_id)
