"""
A rebuild that keeps the former view in service until it can take its place.

The successor is a job of its own: it has its own control tables and its own view, in a folder below the job's control
tables, and its epochs are like those of any job. Meanwhile the job's own epochs keep the served view fresh. Once every
vnode of the successor is Completed and its view is as new as the served one, the job's next request for a barrier hands
over: the job becomes the successor's incarnation, with the successor's state, and its first epoch replaces the served
view's rows by the successor's, in one commit. So a reader sees the old view whole or the new one whole.

The handover is pinned like everything else that an epoch depends on: the settings name the version of the successor's
view and the point of the upstream's history that it is as of. After a crash at any point, the next request continues.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

from airflow_backfill_provider.core.clock import Clock, utc_now
from airflow_backfill_provider.core.epoch.approvals import is_released
from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.epoch.crash_points import CrashPoint, reached
from airflow_backfill_provider.core.epoch.settings import JobSettings, SettingsChange, initial_settings_of
from airflow_backfill_provider.core.errors import InvalidJobError, JobCancelledError, NotFinishedError
from airflow_backfill_provider.core.job.cut_over import CutOver
from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.core.job.stars import Star
from airflow_backfill_provider.core.job.succession import FirstRows, Successor
from airflow_backfill_provider.core.job.visibility import Visibility
from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.core.scan.progress import BackfillState
from airflow_backfill_provider.jobs import creation
from airflow_backfill_provider.jobs.adoption import AdoptingEngine
from airflow_backfill_provider.jobs.former_rows import require_nothing_lost
from airflow_backfill_provider.jobs.successor_tables import delete_unused, store_of
from airflow_backfill_provider.lake.log.delta_log import DeltaLog
from airflow_backfill_provider.sources import open_source
from airflow_backfill_provider.sources.base import Source
from airflow_backfill_provider.state.store import BackfillStore
from airflow_backfill_provider.strategies.choice import choose_strategy


def grow_successor(
    job: BackfillJob,
    *,
    store: BackfillStore,
    upstream: Source,
    engine: Callable[[], AdoptingEngine],
    requested_by: str,
    clock: Clock = utc_now,
    discard_history: bool = False,
) -> JobSettings:
    """
    Begin a rebuild that takes the view's place once it is finished; until then the view stays as it is.

    Asking again for the same definition completes what a crash left. Another definition replaces the successor, and so
    does the same one over another table at the upstream's location.

    :param discard_history: whether former rows that the view keeps may be lost when the successor takes its place.
    :returns: the settings of the successor.
    :raises InvalidJobError: if the job is wrong, or moves the view.
    :raises MaterializedViewError: if former rows would be lost.
    :raises NotFinishedError: if the view is not finished, so that there is nothing whole to keep in service.
    :raises JobCancelledError: if the job was cancelled, so that no epoch keeps the view fresh.
    """
    before = store.settings()
    creation.require_same_job(job, before, store)
    _require_served(before)
    require_possible(job)
    require_nothing_lost(before, store, discard_history=discard_history)
    wanted = job.model_dump(mode="json")
    if (
        before.successor is None
        or before.successor.job != wanted
        or _reads_former_table(before.successor, store, upstream)
    ):
        creation.check_job(job.computed(), store, upstream, engine, clock)
        successor = _new_successor(job, upstream)

        def change(settings: JobSettings) -> JobSettings:
            _require_served(settings)
            return settings.changed(
                SettingsChange.GROW_SUCCESSOR,
                requested_by=requested_by,
                requested_at=clock(),
                successor=successor,
                proposed=None,
            )

        store.change_settings(change)
        delete_unused(store)
    return create_successor(store, upstream=upstream, engine=engine, requested_by=requested_by, clock=clock)


def require_possible(job: BackfillJob) -> None:
    """
    Refuse a job that cannot be rebuilt beside its view, whatever that view has.

    :raises InvalidJobError: if it keeps something with its control tables that cannot be handed over.
    """
    if kept := job.upstream.kept_for_job:
        raise InvalidJobError(
            f"upstream: job {job.name} keeps {kept} with its control tables, and a rebuild beside the view cannot hand "
            "that over; rebuild without --keep-serving"
        )


def _reads_former_table(successor: Successor, store: BackfillStore, upstream: Source) -> bool:
    """Return whether a successor was created on another table than the one at the upstream's location now."""
    theirs = store_of(successor, store)
    if not theirs.created():
        return False
    settings = theirs.settings()
    found = {name: open_source(job, store.storage_options) for name, job in settings.definition.others.items()}
    return settings.upstream.table_id != upstream.at().table_id or any(
        settings.others[name].table_id != source.at().table_id for name, source in found.items()
    )


def create_successor(
    store: BackfillStore,
    *,
    upstream: Source,
    engine: Callable[[], AdoptingEngine],
    requested_by: str,
    clock: Clock = utc_now,
) -> JobSettings:
    """
    Create the tables of the successor that the settings ask for, as far as they don't exist.

    :raises BackfillError: as :func:`~airflow_backfill_provider.jobs.creation.create_job`.
    """
    found = store.settings().successor
    if found is None:
        raise InvalidJobError(f"the job at {store.location} has no successor; rebuild it with --keep-serving first")
    return creation.create_job(
        BackfillJob(**found.growing),
        store=store_of(found, store),
        upstream=upstream,
        engine=engine,
        requested_by=requested_by,
        clock=clock,
    )


def hand_over(
    store: BackfillStore,
    settings: JobSettings,
    served: Offset,
    *,
    others: Mapping[str, Offset] = MappingProxyType({}),
    requested_by: str,
    now: dt.datetime,
) -> bool:
    """
    Make the successor's incarnation the job's own, if the successor is finished, its view is as new as the served one,
    and it is approved, if that is asked for.

    The first epoch of the incarnation writes the rows.

    :param settings: the settings in force; no barrier of theirs waits for its commit.
    :param served: the upstream's offset that the served view is at.
    :param others: those of the upstreams beside the one that leads, by their names.
    :returns: whether the settings changed.
    """
    successor = settings.successor
    if successor is None:
        return False
    theirs = store_of(successor, store)
    if not theirs.created():
        return False
    grown = theirs.settings()
    if not is_released(settings, grown.incarnation):
        return False
    newest = theirs.newest_barrier(grown)
    commit = None if newest is None else theirs.commit_of(newest.epoch)
    if newest is None or commit is None or not commit.completed:
        return False
    if not _is_as_new(grown, newest, settings, served, others):
        return False
    location = str(successor.growing["materialized_view"])
    written = commit.view_version
    if written is None:
        written = DeltaLog(location, store.storage_options).newest().version
    first_rows = FirstRows(
        point=newest.upstream.end,
        location=location,
        version=written,
        folder=successor.folder,
        others={name: window.end for name, window in newest.others.items()},
    )
    follower = following(
        settings,
        SettingsChange.HAND_OVER,
        grown.model_copy(update={"job": successor.job}),
        first_rows,
        base_epoch=store.last_epoch(),
        requested_by=requested_by,
        now=now,
    )
    return succeed(store, settings, follower, theirs.state())


def _is_as_new(
    grown: JobSettings, newest: Barrier, settings: JobSettings, served: Offset, others: Mapping[str, Offset]
) -> bool:
    """
    Return whether a successor's view has what the served one has of each upstream.

    Offsets of two tables cannot be compared. If an upstream was replaced, no epoch keeps the served view fresh.

    :param grown: the settings of the successor.
    :param newest: its newest barrier.
    :param settings: those of the job whose view is served, and so are the offsets.
    """
    if grown.upstream.table_id == settings.upstream.table_id and newest.upstream.to_offset < served:
        return False
    for name, at in others.items():
        is_same = name in grown.others and grown.others[name].table_id == settings.others[name].table_id
        if is_same and newest.window(name).to_offset < at:
            return False
    return True


def following(
    before: JobSettings,
    change: SettingsChange,
    origin: JobSettings,
    first_rows: FirstRows,
    *,
    base_epoch: int,
    requested_by: str,
    now: dt.datetime,
) -> JobSettings:
    """
    Return the settings of an incarnation whose rows are there already.

    :param before: the settings in force.
    :param origin: the settings that the rows come from; the incarnation goes on with them.
    """
    return before.changed(
        change,
        requested_by=requested_by,
        requested_at=now,
        job=origin.job,
        strategy=origin.strategy,
        shape=origin.shape,
        upstream=origin.upstream,
        view_columns=origin.view_columns,
        incarnation=origin.incarnation,
        state_table=creation.state_table_of(origin.incarnation),
        base_epoch=base_epoch,
        start=origin.start,
        offset_at_creation=origin.offset_at_creation,
        **initial_settings_of(origin),
        cancelled=False,
        finished_epoch=None,
        repair_sequence=0,
        successor=None,
        proposed=None,
        first_rows=first_rows,
        equal_sequence=0,
    )


def succeed(store: BackfillStore, before: JobSettings, follower: JobSettings, state: BackfillState) -> bool:
    """
    Make an incarnation whose rows are there already the job's own, unless the settings changed meanwhile.

    The state comes first, because nothing could restore it once the settings are in force.

    :param before: the settings in force.
    :param follower: the settings that follow them.
    :param state: the state that the incarnation begins with, of whatever epoch.
    :returns: whether the incarnation is the job's own.
    """
    store.begin_state(follower, replace(state, epoch=follower.base_epoch))
    reached(CrashPoint.AFTER_SUCCESSION_STATE)

    def change(current: JobSettings) -> JobSettings | None:
        return None if current.sequence != before.sequence else follower

    in_force = store.change_settings(change)
    reached(CrashPoint.AFTER_SUCCESSION_SETTINGS)
    return in_force.incarnation == follower.incarnation


def _require_served(settings: JobSettings) -> None:
    if settings.cancelled:
        raise JobCancelledError(
            f"job {settings.job['name']} was cancelled, so no epoch keeps its view fresh; rebuild it without "
            "--keep-serving"
        )
    if settings.finished_epoch is None:
        raise NotFinishedError(
            f"the view of job {settings.job['name']} is not finished, so there is no whole view to keep in service; "
            "finish it first, or rebuild without --keep-serving"
        )


def _new_successor(job: BackfillJob, upstream: Source) -> Successor:
    token = creation.new_incarnation()
    folder = f"{job.state}/successor_{token}"
    return Successor(
        folder=folder,
        job=job.model_dump(mode="json"),
        growing=_growing(job, folder, upstream).model_dump(mode="json"),
    )


def _growing(job: BackfillJob, folder: str, upstream: Source) -> BackfillJob:
    """
    Return the definition of the job that grows in a folder.

    Nobody reads its view, so changes may wait until it is finished, if a strategy can read the upstream that way.
    """
    elsewhere = {
        **job.computed().fields,
        "materialized_view": f"{folder}/view",
        "view_path": "",
        "state": f"{folder}/control",
        # What the rebuild waits for is its place; nobody reads its own view.
        "cut_over": CutOver.AUTO,
        "cut_over_timeout_hours": None,
        # It begins with all columns; what comes meanwhile, the view gets once it has these.
        "star": Star.FREEZE,
    }
    try:
        hidden = BackfillJob(**elsewhere | {"visibility": Visibility.ON_FINISH})
        choose_strategy(hidden, upstream, upstream.at())
    except InvalidJobError:
        return BackfillJob(**elsewhere)
    return hidden
