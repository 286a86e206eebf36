"""
Materialized views as assets. Other DAGs are scheduled on them, and the pages find the jobs of a DAG by them.

Each view has three assets. The first gets an event for every committed epoch and one when the view is finished. The
second gets only the event of the finished view, for DAGs that must not read a view before. The third gets an event
when a verification finds that the view is right. A job's own DAG can be scheduled on a fourth asset, which follows the
upstream's commits.
"""

from __future__ import annotations

import urllib.parse
from collections.abc import Iterable, Mapping
from typing import Any

from airflow.sdk import Asset, AssetAlias, AssetAny, AssetWatcher, Context

from airflow_backfill_provider.core import location
from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.hooks.backfill import BackfillHook, JobDefinition, load_job

VIEW_GROUP = "materialized_view"
FINISHED_GROUP = "finished_materialized_view"
VERIFIED_GROUP = "verified_materialized_view"
UPSTREAM_GROUP = "backfill_upstream"

CATALOG_SCHEME = "catalog"
"""The scheme of the URI of a table that is named in a catalog: ``catalog://<catalog>/<schema>/<table>``."""

DEFINITION = "definition"
CONNECTION = "backfill_conn_id"

JOB_XCOM = "backfill_job"
"""The XCom of the task that creates a job: the job's definition and connection, as in the extra of its asset."""

MATERIALIZED_VIEWS = AssetAlias("materialized_views", group=VIEW_GROUP)
"""
The outlet of tasks that commit epochs, or that learn their job only at run time.

When a task succeeds, Airflow emits an event for each asset among its outlets, even if the task did nothing. For an
alias it emits only the events that the task adds.
"""


VERIFIED_VIEWS = AssetAlias("verified_materialized_views", group=VERIFIED_GROUP)
"""The outlet of tasks that verify views."""


def materialized_view_asset(job: JobDefinition, backfill_conn_id: str = BackfillHook.default_conn_name) -> Asset:
    """
    Return the asset of a job's view. It gets an event for every committed epoch, and one when the view is finished.

    ``DAG(schedule=[materialized_view_asset("/jobs/paid_orders.yaml")])`` runs a DAG on every refresh of the view.

    :param job: the definition; a path is read when the DAG is parsed.
    :param backfill_conn_id: the connection that says where control tables lie.
    """
    loaded = load_job(job)
    return Asset(
        name=loaded.name,
        uri=_view_uri(loaded),
        group=VIEW_GROUP,
        extra=job_extra(loaded, backfill_conn_id),
    )


def job_extra(job: JobDefinition, backfill_conn_id: str) -> dict[str, Any]:
    """Return the extra of a job's asset: all that is needed to open the job."""
    return {
        DEFINITION: load_job(job).model_dump(mode="json", exclude_unset=True),
        CONNECTION: backfill_conn_id,
    }


def finished_view_asset(job: JobDefinition) -> Asset:
    """
    Return the asset that gets one event when a job's view is finished, and another one after each rebuild.

    ``DAG(schedule=[finished_view_asset("/jobs/paid_orders.yaml")])`` runs a DAG on the finished view.

    :param job: the definition; a path is read when the DAG is parsed.
    """
    return _asset_of_event(job, "finished", FINISHED_GROUP)


def verified_view_asset(job: JobDefinition) -> Asset:
    """
    Return the asset that gets an event whenever a verification finds that a job's view is right.

    ``DAG(schedule=[verified_view_asset("/jobs/paid_orders.yaml")])`` runs a DAG on a view that is known to be right.

    :param job: the definition; a path is read when the DAG is parsed.
    """
    return _asset_of_event(job, "verified", VERIFIED_GROUP)


def _asset_of_event(job: JobDefinition, event: str, group: str) -> Asset:
    loaded = load_job(job)
    return Asset(name=f"{loaded.name} {event}", uri=f"{_view_uri(loaded)}?event={event}", group=group)


def upstream_asset(
    job: JobDefinition, *, poll_interval: float = 30, backfill_conn_id: str = BackfillHook.default_conn_name
) -> Asset | AssetAny:
    """
    Return the asset that gets an event whenever a job needs an epoch. A watcher in the triggerer emits the events.

    ``backfill_dag(job, schedule=upstream_asset(job))`` runs the job's epochs until its view is finished, and from then
    on when the upstream has a new commit.
    :class:`~airflow_backfill_provider.triggers.upstream.UpstreamCommitTrigger` describes the events.

    :param job: the definition; a path is read when the DAG is parsed.
    :param poll_interval: seconds between two polls; a poll that finds nothing new opens no file. Every DAG that uses
        the asset must give the same interval, because they share its watcher.
    :param backfill_conn_id: the connection that says where control tables lie; the same as the DAG's.
    :returns: for a job with several upstreams: any of their assets, of which each has a watcher.
    """
    loaded = load_job(job)
    names = [None, *loaded.others]
    assets = [
        _upstream_asset(loaded, other, poll_interval=poll_interval, backfill_conn_id=backfill_conn_id)
        for other in names
    ]
    return AssetAny(*assets) if loaded.others else assets[0]


def _upstream_asset(job: BackfillJob, other: str | None, *, poll_interval: float, backfill_conn_id: str) -> Asset:
    """
    Return the asset of one upstream.

    :param other: its name, if it is not the one that leads.
    """
    from airflow_backfill_provider.triggers.upstream import UpstreamCommitTrigger

    upstream = job.upstream if other is None else job.others[other]
    named = job.name if other is None else f"{job.name} {other}"
    trigger = UpstreamCommitTrigger(
        job=job.model_dump(mode="json", exclude_unset=True),
        backfill_conn_id=backfill_conn_id,
        poll_interval=poll_interval,
        other=other,
    )
    return Asset(
        name=f"{named} upstream",
        uri=f"{_uri(upstream.location, upstream.catalog_table)}?job={job.name}",
        group=UPSTREAM_GROUP,
        watchers=[AssetWatcher(name=named, trigger=trigger)],
    )


def view_assets(job: JobDefinition, backfill_conn_id: str) -> list[Asset]:
    """Return the assets that get the events of a job's epochs and of its finished view."""
    return [materialized_view_asset(job, backfill_conn_id), finished_view_asset(job)]


def emit(
    context: Context,
    outlets: Iterable[Any],
    assets: Iterable[Asset],
    extra: Mapping[str, Any],
    alias: AssetAlias = MATERIALIZED_VIEWS,
) -> None:
    """
    Emit an event for every asset among a task's outlets, and for the given assets through an alias among them.

    :param assets: the assets to emit through the alias.
    :param extra: the event's extra.
    """
    for outlet in outlets:
        if isinstance(outlet, Asset):
            context["outlet_events"][outlet].extra = dict(extra)
        elif isinstance(outlet, AssetAlias) and outlet.name == alias.name:
            for asset in assets:
                context["outlet_events"][outlet].add(asset, extra=dict(extra))


def announces_views(outlets: Iterable[Any]) -> bool:
    """Return whether a task's outlets get the events of epochs: an asset, or :data:`MATERIALIZED_VIEWS`."""
    return any(
        isinstance(outlet, Asset) or (isinstance(outlet, AssetAlias) and outlet.name == MATERIALIZED_VIEWS.name)
        for outlet in outlets
    )


def _view_uri(job: BackfillJob) -> str:
    return _uri(job.view_location, job.view_name)


def _uri(place: str, name: str) -> str:
    """
    Return the URI of a table: its name in a catalog, if it has one, or else its location.

    A DAG's author knows the name, but not where a catalog puts the table.
    """
    if name:
        return f"{CATALOG_SCHEME}://{name.replace('.', '/')}"
    return f"file://{urllib.parse.quote(place)}" if location.is_local(place) else place
