"""
Creating a job and starting it over: the two steps that look at a definition whole.

Everything that can be refused is refused here, before anything is written (I6); then settings, state and the view's
empty table are written in this order. A crash between two of them is repaired by the same step, by the other one,
or by the next epoch.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable

from airflow_backfill_provider.core.errors import InvalidJobError, MaterializedViewError
from airflow_backfill_provider.core.job import BackfillJob, Strategy
from airflow_backfill_provider.core.query import check_query
from airflow_backfill_provider.core.settings import JobSettings, ResolvedUpstream, SettingsChange, UpstreamColumn
from airflow_backfill_provider.lake.upstream import UpstreamTable, UpstreamVersion
from airflow_backfill_provider.lake.view_identity import ViewIdentity, view_identity
from airflow_backfill_provider.protocol import Clock, Engine, utc_now
from airflow_backfill_provider.state.store import BackfillStore


def create_job(
    job: BackfillJob,
    *,
    store: BackfillStore,
    upstream: UpstreamTable,
    engine: Callable[[], Engine],
    requested_by: str,
    clock: Clock = utc_now,
) -> JobSettings:
    """
    Create a job: check it whole, then write its settings, its state and the view's empty table.

    Idempotent for an unchanged definition, in which case no engine is asked for unless a crash left something to
    repair.

    :param engine: makes the engine when it is needed; starting Spark takes seconds.
    :raises InvalidJobError: if the job is wrong, or was created with another definition.
    :raises BackfillError: if the upstream or the view's path cannot be used.
    """
    if store.created():
        settings = store.settings()
        _require_same_definition(job, settings)
    else:
        strategy = decide_strategy(job)
        described = upstream.at()
        resolved = resolve_upstream(job, described)
        engine().check(job, resolved, described.version, frozenset())
        settings = JobSettings(
            sequence=1,
            change=SettingsChange.CREATE,
            job=job.model_dump(mode="json"),
            strategy=strategy.value,
            upstream=resolved,
            incarnation=_new_incarnation(),
            rate_limit=job.rate_limit,
            requested_by=requested_by,
            requested_at=clock(),
        )
        # Somebody may have created the job meanwhile; then it is theirs.
        settings = store.create(settings)
        _require_same_definition(job, settings)
    store.repair_state()
    if not _has_view(settings, store):
        if store.commits(since_epoch=settings.base_epoch + 1):
            raise MaterializedViewError(
                f"materialized_view: the view of job {job.name} is gone from {job.materialized_view}, but epochs wrote "
                "to it; restore it, or rebuild the job"
            )
        _ensure_view(store, settings, engine())
    return settings


def is_created(job: BackfillJob, store: BackfillStore) -> bool:
    """
    Tell, without an engine, whether :func:`create_job` has nothing left to do.

    :raises InvalidJobError: if the job was created with another definition.
    """
    return store.created() and _has_view(require_job(job, store), store)


def rebuild_job(
    job: BackfillJob,
    *,
    store: BackfillStore,
    upstream: UpstreamTable,
    engine: Callable[[], Engine],
    requested_by: str,
    clock: Clock = utc_now,
) -> JobSettings:
    """
    Start a job over, possibly with another definition: new incarnation, no progress, an empty view.

    The view's path stays; its rows are gone as soon as this returns. Epochs count on. A rebuild that died is
    completed by :func:`create_job`, by the next epoch, or by rebuilding again.

    :raises InvalidJobError: if the job is wrong, or moves the view.
    """
    before = store.settings()
    if before.job["name"] != job.name:
        raise InvalidJobError(f"name: {job.state} holds job {before.job['name']}; a rebuild keeps a job's name")
    if before.job["materialized_view"] != job.materialized_view:
        raise InvalidJobError(
            f"materialized_view: a rebuild keeps the view at {before.job['materialized_view']}; to move it, create "
            "another job"
        )
    strategy = decide_strategy(job)
    described = upstream.at()
    resolved = resolve_upstream(job, described)
    made = engine()
    made.check(job, resolved, described.version, store.incarnations())
    incarnation = _new_incarnation()

    def change(settings: JobSettings) -> JobSettings:
        return settings.changed(
            SettingsChange.REBUILD,
            requested_by=requested_by,
            requested_at=clock(),
            job=job.model_dump(mode="json"),
            strategy=strategy.value,
            upstream=resolved,
            incarnation=incarnation,
            state_table=f"vnode_state_{incarnation}",
            base_epoch=store.last_epoch(),
            rate_limit=job.rate_limit,
            paused=False,
            cancelled=False,
            finished_epoch=None,
        )

    settings = store.change_settings(change)
    store.repair_state()
    _ensure_view(store, settings, made)
    return settings


def require_job(job: BackfillJob, store: BackfillStore) -> JobSettings:
    """
    Return the settings of a created job whose definition is the given one.

    :raises JobNotCreatedError: if it was not created.
    :raises InvalidJobError: if it was created with another definition.
    """
    settings = store.settings()
    _require_same_definition(job, settings)
    return settings


def _require_same_definition(job: BackfillJob, settings: JobSettings) -> None:
    wanted, created = job.definition(), BackfillJob(**settings.job).definition()
    different = sorted(name for name in wanted if wanted[name] != created[name])
    if different:
        raise InvalidJobError(
            f"job {job.name} was created at {job.state} with another {', '.join(different)}; rebuild the job to "
            "change its definition"
        )


def decide_strategy(job: BackfillJob) -> Strategy:
    """Return the strategy that a job is created with; never ``auto``."""
    if job.strategy is Strategy.ARRANGEMENT:
        raise InvalidJobError(
            "strategy: arrangement is not built yet; allowed are auto and no_shuffle (which scans more than its chunk "
            "where keys are in random order, and says so)"
        )
    return Strategy.NO_SHUFFLE


def resolve_upstream(job: BackfillJob, described: UpstreamVersion) -> ResolvedUpstream:
    """Return the upstream's identity and the columns that the job uses, or refuse what cannot work."""
    described.require_change_data_feed(job.upstream.path)
    names = list(described.types)
    for field_name, columns in (
        ("upstream.key", [column.column for column in job.upstream.key]),
        ("upstream.distribution_key", list(job.upstream.distribution_key)),
    ):
        for column in columns:
            if column not in described.types:
                raise InvalidJobError(
                    f"{field_name}: {job.upstream.path} has no column {column!r}; it has {', '.join(names)}"
                )
    order = described.key_order(job.upstream.key)
    for key in order.fields:
        key.kind  # noqa: B018 - raises for a type that cannot be a key
    query = check_query(job.query)
    query.refuse_functions_without_parentheses(names)
    used = {*query.columns_of(names), *order.names, *job.upstream.distribution_key}
    return ResolvedUpstream(
        table_id=described.table_id,
        columns=tuple(UpstreamColumn(name=name, type=described.types[name]) for name in names if name in used),
    )


def _ensure_view(store: BackfillStore, settings: JobSettings, engine: Engine) -> None:
    with engine.exclusive(settings):
        engine.ensure_view(settings, store.incarnations() - {settings.incarnation})


def _has_view(settings: JobSettings, store: BackfillStore) -> bool:
    wanted = ViewIdentity(settings.job["name"], settings.incarnation)
    return view_identity(settings.job["materialized_view"], store.storage_options) == wanted


def _new_incarnation() -> str:
    return uuid.uuid4().hex[:12]
