"""One job as one DAG, or several jobs that read each other's views."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any

from airflow.sdk import DAG, CronDataIntervalTimetable, DeltaDataIntervalTimetable

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.core.job.job_order import in_order, reads_view_of
from airflow_backfill_provider.hooks.backfill import BackfillHook, JobDefinition, load_job
from airflow_backfill_provider.jobs.planning.markdown import definition_markdown
from airflow_backfill_provider.operators.approval import ApproveBackfillOperator
from airflow_backfill_provider.operators.rebuild import RebuildDownstreamOperator
from airflow_backfill_provider.task_group import BackfillTaskGroup, ParallelBackfillTaskGroup

DEFAULT_ARGUMENTS = {
    "retries": 2,
    "retry_delay": dt.timedelta(seconds=30),
    # max_active_runs of the DAG does not limit an Airflow backfill, and its epochs must be consecutive, too.
    "max_active_tis_per_dag": 1,
}

_ONE_INSTANT = "{{ dag_run.run_after.isoformat() }}"
"""The instant at which a DAG run was due, for all of its jobs alike."""

_Group = BackfillTaskGroup | ParallelBackfillTaskGroup

_SCHEDULES_WITHOUT_INTERVAL = frozenset({"@once", "@continuous"})


def backfill_dag(  # noqa: PLR0913 - what a user may set for a DAG
    job: JobDefinition | Sequence[JobDefinition],
    *,
    schedule: Any = None,
    barriers: int = 1,
    epochs_per_run: int = 1,
    compact_at: int | None = None,
    start_date: dt.datetime = dt.datetime(2025, 1, 1, tzinfo=dt.UTC),
    backfill_conn_id: str = BackfillHook.default_conn_name,
    spark_conn_id: str | None = None,
    conf: Mapping[str, Any] | None = None,
    deferrable: bool = True,
    rebuild_downstream: bool = False,
    **dag: Any,
) -> DAG:
    """
    Return a DAG that backfills one job, or several, and keeps their views fresh::

        from airflow_backfill_provider.dag_factory import backfill_dag

        backfill_dag("/jobs/paid_orders.yaml", schedule="@hourly")

    Of several jobs, one that reads the view of another runs after it; their order in the list does not matter. Until
    the other view is finished, its tasks are skipped, and say what they wait for. The tasks of a job are in a group
    with the job's name; those of a single job, in the group ``backfill``.

    A scheduled DAG run reads the upstream as of its ``data_interval_end``, so catch-up and Airflow's backfills go
    through history in order. A manual DAG run reads up to the newest version. So does a DAG run of
    ``schedule=upstream_asset(job)``, which starts while there is history to read, and then for each new commit. If a
    job of the DAG reads several upstreams, and the view of another one is among them, all jobs read as of the instant
    at which the DAG run was due, so that views of a common table show the same version.

    If the job's ``parallelism`` is above 1, that many task runs share each epoch.

    :param job: the definition, or a list of them; a path is read when the DAG is parsed.
    :param schedule: a cron expression or a time delta, which give real data intervals here;
        :func:`~airflow_backfill_provider.assets.upstream_asset`; or any other schedule of a DAG.
    :param barriers: how many task runs a DAG run has, one after another, each with its own Spark application.
    :param epochs_per_run: how many epochs each of these task runs runs at most; for 20 epochs in one Spark application,
        give ``barriers=1, epochs_per_run=20``. Must be 1 if the job's parallelism is above 1.
    :param compact_at: after the epochs, compact the view's files if that saves at least this many files; ``None`` never
        compacts them here.
    :param start_date: when the schedule begins.
    :param backfill_conn_id: the connection that says where control tables lie.
    :param spark_conn_id: a connection of Spark or Spark Connect; ``None`` runs on the worker, with all its cores.
    :param conf: Spark configuration, added to this package's own.
    :param deferrable: whether tasks wait for Spark without a worker slot, which needs a triggerer.
    :param rebuild_downstream: whether a job is rebuilt, too, once the job whose view it reads was rebuilt; see
        :class:`~airflow_backfill_provider.operators.rebuild.RebuildDownstreamOperator`. Otherwise its epochs fail with
        an error that says so. It is about jobs in this DAG.
    :param dag: further arguments of the DAG, such as ``catchup`` or ``dag_id``; by default the jobs' names, joined by
        ``-``.
    :raises InvalidJobError: if a definition is wrong, or jobs read each other's views in a circle; Airflow shows it as
        an import error.
    """
    loaded = _loaded(job)
    arguments = {
        "dag_id": "-".join(job.name for job in loaded),
        "start_date": start_date,
        "max_active_runs": 1,
        "tags": ["backfill", *(job.name for job in loaded)],
        "doc_md": "\n".join(map(definition_markdown, loaded)),
        **dag,
        "default_args": {**DEFAULT_ARGUMENTS, **dag.get("default_args", {})},
    }
    about: dict[str, Any] = {
        "barriers": barriers,
        "epochs_per_run": epochs_per_run,
        "compact_at": compact_at,
        "backfill_conn_id": backfill_conn_id,
        "spark_conn_id": spark_conn_id,
        "conf": conf,
        "deferrable": deferrable,
    }
    with DAG(schedule=with_data_intervals(schedule), **arguments) as made:
        groups = _groups(loaded, about)
        if rebuild_downstream:
            _rebuild_downstream(loaded, groups, about)
    return made


def approved_backfill_dag(
    job: JobDefinition,
    *,
    approval: Mapping[str, Any] | None = None,
    backfill_conn_id: str = BackfillHook.default_conn_name,
    **backfill: Any,
) -> DAG:
    """
    Return a DAG as :func:`backfill_dag` does, with a task that asks for approval of the plan before it creates the job.

    :param job: the definition; a path is read when the DAG is parsed.
    :param approval: arguments of
        :class:`~airflow_backfill_provider.operators.approval.ApproveBackfillOperator`, such as ``assigned_users``.
    :param backfill_conn_id: the connection that says where control tables lie.
    :param backfill: further arguments of :func:`backfill_dag`.
    """
    loaded = load_job(job)
    made = backfill_dag(loaded, backfill_conn_id=backfill_conn_id, **backfill)
    with made:
        approve = ApproveBackfillOperator(
            task_id="approve", job=loaded, backfill_conn_id=backfill_conn_id, **(approval or {})
        )
    for first in made.task_group.children["backfill"].roots:
        approve >> first
    return made


def _loaded(job: JobDefinition | Sequence[JobDefinition]) -> list[BackfillJob]:
    """Return the jobs in the order in which they run."""
    jobs = [job] if isinstance(job, str | Mapping | BackfillJob) else job
    loaded = in_order([load_job(one) for one in jobs])
    if not loaded:
        raise InvalidJobError("job: the list is empty; give at least one job")
    return loaded


def _groups(jobs: Sequence[BackfillJob], about: Mapping[str, Any]) -> dict[str, _Group]:
    """Make the task groups of jobs, each after those whose views it reads, and return them by the jobs' names."""
    groups: dict[str, _Group] = {}
    meets = any(job.others and any(reads_view_of(job, writer) for writer in jobs) for job in jobs)
    for job in jobs:
        before = [groups[writer.name] for writer in jobs if reads_view_of(job, writer)]
        kind = ParallelBackfillTaskGroup if job.parallelism > 1 else BackfillTaskGroup
        groups[job.name] = kind(
            "backfill" if len(jobs) == 1 else job.name,
            job=job,
            until=_ONE_INSTANT if meets else None,
            # The tasks before it are skipped if their job has nothing to finish and no rebuild, or waits itself.
            create_trigger_rule="none_failed" if before else "all_success",
            **about,
        )
        for group in before:
            group >> groups[job.name]
    return groups


def _rebuild_downstream(jobs: Sequence[BackfillJob], groups: Mapping[str, _Group], about: Mapping[str, Any]) -> None:
    """Before the epochs of each job that reads the view of another one, add a task that rebuilds the job after it."""
    arguments = {name: about[name] for name in ("backfill_conn_id", "spark_conn_id", "conf", "deferrable")}
    for job in jobs:
        if any(reads_view_of(job, writer) for writer in jobs):
            group = groups[job.name]
            first = list(group.create.downstream_list)
            with group:
                downstream = RebuildDownstreamOperator(task_id="rebuild_downstream", job=job, **arguments)
            group.create >> downstream >> first


def with_data_intervals(schedule: Any) -> Any:
    """
    Return a schedule that gives each DAG run a real data interval.

    With a plain cron expression, Airflow gives each DAG run a data interval of length zero.
    """
    if isinstance(schedule, str) and schedule not in _SCHEDULES_WITHOUT_INTERVAL:
        return CronDataIntervalTimetable(schedule, timezone="UTC")
    if isinstance(schedule, dt.timedelta):
        return DeltaDataIntervalTimetable(schedule)
    return schedule
