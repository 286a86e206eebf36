"""
Create a job, and rebuild it.

Both check the whole definition before anything is written (I6). Then they write settings, state, the view's empty table
and the strategy's tables, in this order. After a crash in between, creating, rebuilding or the next epoch completes the
rest, because the settings pin the upstream's offset that the tables are made of. If Spark refuses to create the view, a
corrected definition can be created again.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable, Sequence

from airflow_backfill_provider.core.clock import Clock, utc_now
from airflow_backfill_provider.core.epoch.engine import Engine
from airflow_backfill_provider.core.epoch.settings import (
    JobSettings,
    ResolvedUpstream,
    SettingsChange,
    ViewColumn,
    initial_settings_of,
)
from airflow_backfill_provider.core.errors import InvalidJobError, MaterializedViewError, StateError
from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.core.scan.offset import HistoryPoint
from airflow_backfill_provider.jobs.adoption import AdoptingEngine, adopting
from airflow_backfill_provider.jobs.beginnings import (
    has_view_of,
    is_unused,
    undone_unless_created,
    undone_unless_used,
)
from airflow_backfill_provider.jobs.first_look import require_kept
from airflow_backfill_provider.jobs.former_rows import require_nothing_lost, require_times
from airflow_backfill_provider.jobs.look_back import look_at_beginning, require_followed
from airflow_backfill_provider.jobs.resolution import require_changes_of_all, resolve_upstream
from airflow_backfill_provider.jobs.successor_tables import delete_unused
from airflow_backfill_provider.lake.tables.view_identity import view_identity
from airflow_backfill_provider.shapes import shape_of
from airflow_backfill_provider.sources.base import Source
from airflow_backfill_provider.sources.description import UpstreamDescription
from airflow_backfill_provider.state.store import BackfillStore
from airflow_backfill_provider.strategies import KINDS, Strategy
from airflow_backfill_provider.strategies.choice import choose_strategy


def create_job(
    job: BackfillJob,
    *,
    store: BackfillStore,
    upstream: Source,
    engine: Callable[[], AdoptingEngine],
    requested_by: str,
    clock: Clock = utc_now,
) -> JobSettings:
    """
    Create a job: check it, then write its settings, its state, the view's empty table and the strategy's tables.

    Idempotent for an unchanged definition; then no engine is started, unless a crash left something to complete. If the
    view could not be made, because Spark refuses its path or its properties for example, the job can be created again
    with another definition.

    :param engine: makes the engine when it is needed; starting Spark takes seconds.
    :raises InvalidJobError: if the job is wrong, or was created with another definition.
    :raises BackfillError: if the upstream or the view's path cannot be used.
    """
    if store.created():
        settings = store.settings()
        if not _is_as_created(job, settings, store):
            return rebuild_job(
                job, store=store, upstream=upstream, engine=engine, requested_by=requested_by, clock=clock
            )
    else:
        described, resolved, strategy = check_job(job, store, upstream, engine, clock)
        view_columns = engine().view_columns(job, resolved) if shape_of(job).pins_columns else ()
        with undone_unless_created(job, store, upstream):
            settings = new_settings(
                job,
                strategy,
                described,
                resolved,
                view_columns=view_columns,
                start=strategy.start(job.name, upstream, described),
                requested_by=requested_by,
                requested_at=clock(),
            )
            if job.backfill_from is not None:
                settings = adopting(
                    settings,
                    upstream=upstream,
                    engine=engine,
                    storage_options=store.storage_options,
                    requested_by=requested_by,
                    now=clock(),
                )
            # Another process may have created the job meanwhile; then its settings count.
            settings = store.create(settings)
        _require_same_definition(job, settings)
    store.repair_state()
    has_view = has_view_of(settings, store)
    if not (has_view and _is_prepared(settings, store)):
        if not has_view and store.commits(since_epoch=settings.base_epoch + 1):
            raise MaterializedViewError(
                f"materialized_view: the view of job {job.name} is gone from {settings.definition.view_location}, but "
                "epochs wrote to it; restore it, or rebuild the job"
            )
        if is_unused(store, has_view=has_view) and not upstream.has_begun(job.name):
            # An earlier attempt could not make the view, and took the beginning back.
            return rebuild_job(
                job, store=store, upstream=upstream, engine=engine, requested_by=requested_by, clock=clock
            )
        with undone_unless_used(settings, store, upstream):
            ensure_tables(store, settings, engine())
    return settings


def is_created(job: BackfillJob, store: BackfillStore) -> bool:
    """
    Return, without an engine, whether :func:`create_job` has nothing left to do.

    :raises InvalidJobError: if the job was created with another definition.
    """
    if not store.created():
        return False
    settings = store.settings()
    return _is_as_created(job, settings, store) and has_view_of(settings, store) and _is_prepared(settings, store)


def rebuild_job(
    job: BackfillJob,
    *,
    store: BackfillStore,
    upstream: Source,
    engine: Callable[[], Engine],
    requested_by: str,
    clock: Clock = utc_now,
    discard_history: bool = False,
) -> JobSettings:
    """
    Start a job over, possibly with another definition: new incarnation, no progress, an empty view.

    The view keeps its path, unless no view could be made there; its rows are gone when this returns. Epoch numbers
    continue. :func:`create_job`, the next epoch, or another rebuild completes a rebuild that died.

    :param discard_history: whether former rows that the view keeps may be lost.
    :raises InvalidJobError: if the job is wrong, or moves the view.
    :raises MaterializedViewError: if former rows would be lost.
    """
    before = store.settings()
    require_same_job(job, before, store)
    require_nothing_lost(before, store, discard_history=discard_history)
    described, resolved, strategy = check_job(job.computed(), store, upstream, engine, clock)
    view_columns = engine().view_columns(job, resolved) if shape_of(job).pins_columns else ()
    incarnation = new_incarnation()

    def change(settings: JobSettings) -> JobSettings:
        return settings.changed(
            SettingsChange.REBUILD,
            requested_by=requested_by,
            requested_at=clock(),
            job=job.model_dump(mode="json"),
            strategy=strategy.name,
            shape=shape_of(job).name,
            upstream=resolved,
            view_columns=view_columns,
            incarnation=incarnation,
            state_table=state_table_of(incarnation),
            base_epoch=store.last_epoch(),
            start=strategy.start(job.name, upstream, described),
            offset_at_creation=described.offset,
            **initial_settings_of(job),
            cancelled=False,
            finished_epoch=None,
            repair_sequence=0,
            successor=None,
            proposed=None,
            first_rows=None,
            equal_sequence=0,
        )

    upstream.restart()
    with undone_unless_created(job, store, upstream):
        settings = store.change_settings(change)
    store.repair_state()
    ensure_tables(store, settings, engine())
    delete_unused(store)
    return settings


def check_job(
    job: BackfillJob,
    store: BackfillStore,
    upstream: Source,
    engine: Callable[[], Engine],
    clock: Clock = utc_now,
) -> tuple[UpstreamDescription, ResolvedUpstream, Strategy]:
    """
    Check a definition before anything is written.

    :returns: the upstream, or the one that leads, as of where the job begins; the columns that it uses; the strategy.
    :raises BackfillError: if it cannot be created; an unfinished view is no upstream yet.
    """
    options = store.storage_options
    seen = look_at_beginning(job, upstream, options, clock)
    resolved = resolve_upstream(job, seen.described, seen.others)
    choice = choose_strategy(job, upstream, seen.described, seen.others)
    require_changes_of_all(job, resolved, seen.several)
    require_kept(seen.others, choice)
    if job.as_of is not None:
        require_followed(job, resolved, seen.described.offset, upstream, options)
    require_times(job, seen.described.offset, upstream, options)
    engine().check(job, resolved, seen.described.offset, choice.strategy.name, store.incarnations())
    return seen.described, resolved, choice.strategy


def require_job(job: BackfillJob, store: BackfillStore) -> JobSettings:
    """
    Return the settings of a job that was created with exactly this definition.

    :raises JobNotCreatedError: if it was not created.
    :raises InvalidJobError: if it was created with another definition.
    """
    settings = store.settings()
    _require_same_definition(job, settings)
    return settings


def _require_same_definition(job: BackfillJob, settings: JobSettings) -> None:
    if different := _differing_fields(job, settings):
        raise _defined_otherwise(job, different, settings)


def _is_as_created(job: BackfillJob, settings: JobSettings, store: BackfillStore) -> bool:
    """
    Return whether a job was created with this definition; if not, it may still be replaced, because it has no view.

    :raises InvalidJobError: if a view was made with another definition.
    """
    different = _differing_fields(job, settings)
    if different and _was_made(settings, store):
        raise _defined_otherwise(job, different, settings)
    if different and (settings.adopted is not None or job.backfill_from is not None):
        raise InvalidJobError(
            f"job {job.name} was created at {job.state} with another {', '.join(different)}, but has no view yet; "
            f"create it with that definition, or delete {job.state} and create it anew"
        )
    return not different


def _defined_otherwise(job: BackfillJob, different: Sequence[str], settings: JobSettings) -> InvalidJobError:
    another = f"another {', '.join(different)}"
    if settings.change is SettingsChange.REVERT:
        return InvalidJobError(
            f"job {job.name} was put back by {settings.requested_by} to a former definition with {another}; put that "
            "definition back, too, or rebuild the job"
        )
    return InvalidJobError(
        f"job {job.name} was created at {job.state} with {another}; rebuild the job to change its definition, "
        "or run airflow-backfill change, if only the query of a finished view differs"
    )


def _differing_fields(job: BackfillJob, settings: JobSettings) -> list[str]:
    """
    Return the fields in which a job differs from the definition that it was created with.

    While a successor grows, or a changed definition waits for an approval, that one is as good: the job's file has it
    already, and the view will follow.
    """
    latter = [settings.successor.job] if settings.successor else []
    latter += [settings.proposed.fields["job"]] if settings.proposed else []
    known = [settings.definition, *(BackfillJob(**fields) for fields in latter)]
    differences = [_differing(job, created) for created in known]
    return differences[0] if all(differences) else []


def _differing(job: BackfillJob, created: BackfillJob) -> list[str]:
    wanted, before = job.placed_like(created).definition(), created.definition()
    return sorted(name for name in {*wanted, *before} if wanted.get(name) != before.get(name))


def _was_made(settings: JobSettings, store: BackfillStore) -> bool:
    """Return whether a job has, or ever had, a view."""
    if store.last_epoch():
        return True
    if settings.adopts_in_place:
        return has_view_of(settings, store)
    return view_identity(settings.definition.view_location, store.storage_options) is not None


def require_same_job(job: BackfillJob, before: JobSettings, store: BackfillStore) -> None:
    """
    Refuse to rename a job or to move its view; only a view that could not be made may get another path.

    :raises InvalidJobError: if it is renamed or moved.
    """
    if before.job["name"] != job.name:
        raise InvalidJobError(f"name: {job.state} holds job {before.job['name']}; a rebuild keeps a job's name")
    created = before.definition
    if (created.materialized_view, created.view_location) == (job.materialized_view, job.view_location):
        return
    if _was_made(before, store):
        raise InvalidJobError(
            f"materialized_view: a rebuild keeps the view at {created.materialized_view}; to move it, create another "
            "job"
        )


def new_settings(
    job: BackfillJob,
    strategy: Strategy,
    described: UpstreamDescription,
    resolved: ResolvedUpstream,
    *,
    view_columns: tuple[ViewColumn, ...] = (),
    start: HistoryPoint | None,
    requested_by: str,
    requested_at: dt.datetime,
) -> JobSettings:
    """
    Return the first settings of a job that is not created yet.

    :param view_columns: the view's columns, if the query's shape pins them.
    :param start: the point of the upstream's history that the job starts after.
    """
    return JobSettings(
        sequence=1,
        change=SettingsChange.CREATE,
        job=job.model_dump(mode="json"),
        strategy=strategy.name,
        shape=shape_of(job).name,
        upstream=resolved,
        view_columns=view_columns,
        incarnation=new_incarnation(),
        start=start,
        offset_at_creation=described.offset,
        **initial_settings_of(job),
        requested_by=requested_by,
        requested_at=requested_at,
    )


def ensure_tables(store: BackfillStore, settings: JobSettings, engine: Engine) -> None:
    """
    Create what an incarnation's first epoch needs, and delete the tables of strategies of earlier incarnations.

    :raises StateError: if the job was rebuilt meanwhile.
    """
    with engine.exclusive(store.location):
        in_force = store.settings()
        if in_force.incarnation != settings.incarnation:
            raise StateError(
                f"job {settings.job['name']} was rebuilt meanwhile by {in_force.requested_by}; the view is that of the "
                "later rebuild, and nothing is left to do for this one"
            )
        engine.ensure_tables(settings, store.earlier_incarnations(settings))
        # Never clean up later incarnations: a process that slept through another rebuild would drop its tables.
        earlier = [record for record in store.settings_history() if record.sequence < settings.sequence]
        replaced = {(record.incarnation, record.strategy): record for record in earlier if record.start is not None}
        for (incarnation, strategy), record in replaced.items():
            if incarnation != settings.incarnation:
                KINDS.named(strategy).clean_up(record, store.storage_options)


def _is_prepared(settings: JobSettings, store: BackfillStore) -> bool:
    """Return whether the strategy's tables exist, or are not needed: after the first barrier no epoch makes them."""
    if settings.cancelled or settings.first_rows is not None or store.newest_barrier(settings) is not None:
        return True
    return KINDS.named(settings.strategy).is_prepared(settings, store.storage_options)


def new_incarnation() -> str:
    """Return the name of a new incarnation."""
    return uuid.uuid4().hex[:12]


def state_table_of(incarnation: str) -> str:
    """Return the name of the state table of an incarnation that follows another."""
    return f"vnode_state_{incarnation}"
