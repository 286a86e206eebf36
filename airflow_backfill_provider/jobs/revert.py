"""
Undo the newest rebuild: give up the one that is under way, or put the former view back.

The view is put back like a successor takes its place: the job becomes a new incarnation with the former definition and
the former state, and its table is replaced, in one commit, by the rows of the version that the former incarnation's
last epoch left. The former incarnation itself cannot go on, because its transactions were used up when it was replaced.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from airflow_backfill_provider.core.clock import Clock, utc_now
from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.epoch.changed_query import settings_for
from airflow_backfill_provider.core.epoch.engine import Engine
from airflow_backfill_provider.core.epoch.settings import JobSettings, SettingsChange
from airflow_backfill_provider.core.errors import ConcurrentUpdateError, NotFinishedError, VersionGoneError
from airflow_backfill_provider.core.job.cut_over import CutOverKind
from airflow_backfill_provider.core.job.succession import FirstRows
from airflow_backfill_provider.jobs import creation
from airflow_backfill_provider.jobs.former_rows import require_nothing_lost
from airflow_backfill_provider.jobs.succession import following, succeed
from airflow_backfill_provider.jobs.successor_tables import delete_unused
from airflow_backfill_provider.lake.log.version_files import missing_file
from airflow_backfill_provider.sources import open_source
from airflow_backfill_provider.state.store import BackfillStore


def give_up_successor(store: BackfillStore, *, requested_by: str, clock: Clock = utc_now) -> CutOverKind | None:
    """
    End a rebuild that grows beside the view, and delete its tables, or a change that waits for an approval.

    The view stays as it is.

    :returns: what it was; ``None`` if there was neither.
    """
    found = _under_way(store.settings())
    if found is None:
        return None

    def change(settings: JobSettings) -> JobSettings | None:
        if _under_way(settings) is None:
            return None
        asked: dict[str, Any] = {"requested_by": requested_by, "requested_at": clock()}
        return settings.changed(SettingsChange.REVERT, **asked, successor=None, proposed=None)

    store.change_settings(change)
    delete_unused(store)
    return found


def put_back(
    store: BackfillStore,
    *,
    engine: Callable[[], Engine],
    requested_by: str,
    clock: Clock = utc_now,
    discard_history: bool = False,
) -> JobSettings:
    """
    Replace the view by the one that it had before the newest rebuild; the next epochs bring it up to date.

    Putting back again takes the rebuild back in.

    :param engine: makes the engine when it is needed; starting Spark takes seconds.
    :param discard_history: whether former rows that the present view keeps may be lost. Those that the former view had
        when its last epoch ended come back with it.
    :raises NotFinishedError: if there was no finished view before.
    :raises MaterializedViewError: if former rows would be lost.
    :raises VersionGoneError: if its files were deleted since, by VACUUM for example.
    :raises UpstreamError: if the upstream no longer has the changes since then.
    """
    history = store.settings_history()
    former = _former(history)
    require_nothing_lost(history[-1], store, discard_history=discard_history)
    barrier, version = _left(store, former)
    # Its newest record may have a changed query that no epoch carried out.
    former = settings_for([record for record in history if record.incarnation == former.incarnation], barrier)
    for name, definition in former.definition.all_upstreams.items():
        source, window = open_source(definition, store.storage_options), barrier.window(name)
        source.require_same_history(window.end)
        if former.needs_changes:
            source.require_changes(window.to_offset, source.latest())
    view = former.definition.view_location
    gone = missing_file(view, version, store.storage_options)
    if gone:
        raise VersionGoneError(
            f"materialized_view: version {version} of {view}, which the former view of job {former.job['name']} is, "
            f"lacks {gone}; it was deleted, for example by VACUUM: rebuild the job with the former definition"
        )
    follower = following(
        history[-1],
        SettingsChange.REVERT,
        former.model_copy(update={"incarnation": creation.new_incarnation()}),
        FirstRows(
            point=barrier.upstream.end,
            location=view,
            version=version,
            others={name: window.end for name, window in barrier.others.items()},
        ),
        base_epoch=store.last_epoch(),
        requested_by=requested_by,
        now=clock(),
    )
    if not succeed(store, history[-1], follower, store.state_of(former)):
        raise ConcurrentUpdateError(f"the settings of job {former.job['name']} changed meanwhile; try again")
    creation.ensure_tables(store, follower, engine())
    delete_unused(store)
    return follower


def _under_way(settings: JobSettings) -> CutOverKind | None:
    if settings.proposed is not None:
        return CutOverKind.CHANGE
    return None if settings.successor is None else CutOverKind.REBUILD


def _former(history: Sequence[JobSettings]) -> JobSettings:
    """Return the last settings of the incarnation before the one in force."""
    in_force = history[-1]
    former = next((record for record in reversed(history) if record.incarnation != in_force.incarnation), None)
    if former is None or former.finished_epoch is None:
        before = "was never rebuilt" if former is None else "had no finished view before it was rebuilt"
        raise NotFinishedError(f"job {in_force.job['name']} {before}, so there is nothing to put back")
    return former


def _left(store: BackfillStore, former: JobSettings) -> tuple[Barrier, int]:
    """Return the newest committed barrier of an incarnation, and the version of the view that it left."""
    reached = None
    barrier = store.newest_barrier(former)
    while barrier is not None:
        commit = store.commit_of(barrier.epoch)
        if commit is not None:
            reached = reached or barrier
            # An epoch without changes records no version if the one before it is of another incarnation.
            if commit.view_version is not None:
                return reached, commit.view_version
        barrier = store.barrier_before(barrier, former)
    raise NotFinishedError(f"no epoch of the former view of job {former.job['name']} is in the barrier log")
