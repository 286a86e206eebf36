"""
Finds the backfills and their DAGs in Airflow's database, by the assets of materialized views.

A view is an asset (:mod:`~airflow_backfill_provider.assets`). It belongs to each DAG that has it among the outlets of a
task, and to each DAG that emitted an event of it, through the alias or directly.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from airflow.models.asset import (
    AssetAliasModel,
    AssetEvent,
    AssetModel,
    TaskOutletAssetReference,
    alias_association_table,
)
from sqlalchemy import ColumnElement, Select, func, or_, select
from sqlalchemy.orm import Session

from airflow_backfill_provider.assets import MATERIALIZED_VIEWS, VIEW_GROUP
from airflow_backfill_provider.hooks.backfill import BackfillHook
from airflow_backfill_provider.plugin.written_jobs import WrittenJob, in_batches, text_of, written_job

_OUTLETS = TaskOutletAssetReference.asset_id, TaskOutletAssetReference.dag_id
_EVENTS = AssetEvent.asset_id, AssetEvent.source_dag_id

NEVER = 0
"""In place of the newest event of a DAG that has the view among its outlets, but has emitted none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredJob:
    """
    A backfill in Airflow's database.

    :param name: the job's name.
    :param definition: the job's definition as the DAG gave it.
    :param backfill_conn_id: the connection with the location of the control tables.
    :param dag_ids: the requested DAGs to which the job belongs: first those that ran it, latest first, then the others
        by name.
    """

    name: str
    definition: Mapping[str, Any]
    backfill_conn_id: str
    dag_ids: tuple[str, ...]

    @property
    def key(self) -> str:
        """A key that jobs with the same tables share."""
        return json.dumps([self.backfill_conn_id, self.definition], sort_keys=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRuns:
    """
    All task runs of one DAG run, or some of them.

    :param task_id: ``None`` for all tasks.
    :param map_index: ``None`` for all mapped task runs.
    """

    run_id: str
    task_id: str | None = None
    map_index: int | None = None


def jobs_of_dags(session: Session, dag_ids: Collection[str]) -> list[RegisteredJob]:
    """Return the backfills of some DAGs, by name."""
    found: dict[int, dict[str, int]] = defaultdict(dict)
    asset, dag = _OUTLETS
    emitted, by = _EVENTS
    views = _view_ids()
    for ids in in_batches(dag_ids):
        outlets = select(asset, dag).distinct().where(asset.in_(views), dag.in_(ids))
        for asset_id, dag_id in session.execute(outlets):
            found[asset_id][str(dag_id)] = NEVER
        newest = select(emitted, by, func.max(AssetEvent.id)).where(emitted.in_(views), by.in_(ids))
        for asset_id, ran_by, event_id in session.execute(newest.group_by(emitted, by)):
            found[asset_id][str(ran_by)] = event_id
    return _registered(session, found)


def job_of_dag(session: Session, dag_id: str, name: str) -> RegisteredJob | None:
    """Return a DAG's backfill by name."""
    named = _view_ids().where(AssetModel.name == name)
    for asset, dag in (_OUTLETS, _EVENTS):
        found = session.scalars(select(asset).distinct().where(asset.in_(named), dag == dag_id))
        jobs = _registered(session, {asset_id: {dag_id: NEVER} for asset_id in found})
        if jobs:
            return jobs[0]
    return None


def jobs_of_task_runs(session: Session, dag_id: str, runs: TaskRuns) -> list[RegisteredJob]:
    """Return the backfills for which a DAG run, or one of its tasks, emitted an event."""
    emitted: list[ColumnElement[bool]] = [
        AssetEvent.asset_id.in_(_view_ids()),
        AssetEvent.source_dag_id == dag_id,
        AssetEvent.source_run_id == runs.run_id,
    ]
    if runs.task_id is not None:
        emitted.append(AssetEvent.source_task_id == runs.task_id)
    if runs.map_index is not None:
        emitted.append(AssetEvent.source_map_index == runs.map_index)
    found = session.scalars(select(AssetEvent.asset_id).distinct().where(*emitted))
    return _registered(session, {asset_id: {dag_id: NEVER} for asset_id in found})


def _view_ids() -> Select[Any]:
    """Return the query of the assets of materialized views."""
    emitted = (
        select(alias_association_table.c.asset_id)
        .join(AssetAliasModel, AssetAliasModel.id == alias_association_table.c.alias_id)
        .where(AssetAliasModel.name == MATERIALIZED_VIEWS.name)
    )
    return select(AssetModel.id).where(or_(AssetModel.group == VIEW_GROUP, AssetModel.id.in_(emitted)))


def _views(session: Session, asset_ids: Collection[int]) -> dict[int, WrittenJob]:
    """Return the jobs of some views, by the id of the view's asset; without those whose extra is no such job."""
    found: dict[int, WrittenJob] = {}
    for ids in in_batches(asset_ids):
        query = select(AssetModel.id, AssetModel.name, text_of(AssetModel.extra)).where(AssetModel.id.in_(ids))
        for asset_id, name, extra in session.execute(query):
            job = written_job(extra)
            if job is not None and job.name == name:
                found[asset_id] = job
    return found


def _registered(session: Session, dags: Mapping[int, Mapping[str, int]]) -> list[RegisteredJob]:
    """
    Return a job for each view that belongs to a DAG. If a DAG has several definitions of a job, the newest one counts.

    :param dags: the DAGs of each view, each with its newest event of the view.
    """
    views = _views(session, dags)
    newest: dict[tuple[str, str], int] = {}
    for asset_id in sorted(views):
        for dag_id in dags[asset_id]:
            newest[views[asset_id].name, dag_id] = asset_id
    owned: dict[int, list[str]] = defaultdict(list)
    for (_, dag_id), asset_id in newest.items():
        owned[asset_id].append(dag_id)
    jobs = [
        RegisteredJob(
            name=views[asset_id].name,
            definition=views[asset_id].definition,
            backfill_conn_id=views[asset_id].backfill_conn_id or BackfillHook.default_conn_name,
            dag_ids=tuple(sorted(dag_ids, key=lambda dag_id: (-dags[asset_id][dag_id], dag_id))),
        )
        for asset_id, dag_ids in owned.items()
    ]
    return sorted(jobs, key=lambda job: (job.name, job.dag_ids))
