"""
The mutations of a job: pause, resume, throttle, rescale, repair, cancel.

While a rebuild grows beside the view, the first four steer the rebuild, because the job itself reads no history then.

Each writes a new record of the job's settings, which takes effect at the next barrier and is recorded in it. Only the
snapshot stops; changes are still applied. Ports ``Mutation::Pause``, ``Resume``, ``Throttle``, ``Update`` (rescale) and
``Stop``. A repair has no counterpart there: a streaming engine would drop and create the view.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import TYPE_CHECKING

from airflow_backfill_provider.core.clock import Clock, utc_now
from airflow_backfill_provider.core.epoch.repair import MOST_KEYS, Repair
from airflow_backfill_provider.core.epoch.settings import JobSettings, SettingsChange
from airflow_backfill_provider.core.errors import InvalidJobError, JobCancelledError
from airflow_backfill_provider.core.job.named_key import encoded_whole_key
from airflow_backfill_provider.core.job.rate_limit import AUTO, AskedRate, RateLimit
from airflow_backfill_provider.core.kinds import SHAPES
from airflow_backfill_provider.core.scan.vnodes import parse_vnodes, require_parallelism
from airflow_backfill_provider.core.shape_limits import ShapeLimits
from airflow_backfill_provider.jobs.beginnings import cancel_uncreated
from airflow_backfill_provider.jobs.strategy_tables import clean_up_after_cancelling
from airflow_backfill_provider.jobs.successor_tables import active_store, delete_unused
from airflow_backfill_provider.shapes import resolved_query_of, shape_of
from airflow_backfill_provider.state.store import BackfillStore
from airflow_backfill_provider.strategies import KINDS

if TYPE_CHECKING:
    from airflow_backfill_provider.jobs.backfill import Backfill


class Unchanged(Enum):
    """Stands for a setting that a mutation leaves as it is, where ``None`` is a value."""

    KEPT = "kept"


def pause_job(*, store: BackfillStore, requested_by: str, clock: Clock = utc_now) -> JobSettings:
    """Read no snapshot from the next barrier on; changes are still applied."""
    return _mutate(active_store(store), SettingsChange.PAUSE, requested_by, clock, _fixed(paused=True))


def resume_job(*, store: BackfillStore, requested_by: str, clock: Clock = utc_now) -> JobSettings:
    """Read the snapshot again from the next barrier on."""
    return _mutate(active_store(store), SettingsChange.RESUME, requested_by, clock, _fixed(paused=False))


def throttle_job(
    rate_limit: RateLimit,
    *,
    store: BackfillStore,
    requested_by: str,
    target_epoch_seconds: float | None = None,
    max_rows_per_second: int | Unchanged | None = Unchanged.KEPT,
    clock: Clock = utc_now,
) -> JobSettings:
    """
    Limit the snapshot rows of an epoch from the next barrier on.

    :param rate_limit: rows; ``None`` is unlimited, 0 reads none, ``auto`` follows the measured speed.
    :param target_epoch_seconds: how long an epoch should take with ``auto``; ``None`` keeps what is in force, or 60.
    :param max_rows_per_second: the pace; ``None`` is unlimited. By default it is kept.
    :raises InvalidJobError: if a value is not allowed, there is a target without ``auto``, or the view's shape reads
        history in one epoch.
    """
    asked = AskedRate.checked(
        rate_limit=rate_limit,
        target_epoch_seconds=target_epoch_seconds,
        max_rows_per_second=None if isinstance(max_rows_per_second, Unchanged) else max_rows_per_second,
    )
    store = active_store(store)
    _limits_of(store.settings()).require_speed(asked.limits)

    def wanted(settings: JobSettings) -> dict[str, object]:
        target = target_epoch_seconds if target_epoch_seconds is not None else settings.target_epoch_seconds
        kept = isinstance(max_rows_per_second, Unchanged)
        return {
            "rate_limit": rate_limit,
            "target_epoch_seconds": target if rate_limit == AUTO else None,
            "max_rows_per_second": settings.max_rows_per_second if kept else max_rows_per_second,
        }

    return _mutate(store, SettingsChange.THROTTLE, requested_by, clock, wanted, value=rate_limit)


def rescale_job(parallelism: int, *, store: BackfillStore, requested_by: str, clock: Clock = utc_now) -> JobSettings:
    """
    Divide the vnodes among another number of parallel task runs from the next barrier on.

    :raises InvalidJobError: if there are fewer vnodes than that, or the strategy cannot divide them.
    """
    store = active_store(store)
    settings = store.settings()
    require_parallelism(parallelism, settings.definition.vnode_count)
    KINDS.named(settings.strategy).require_parallelism(parallelism, settings)
    _limits_of(settings).require_parallelism(parallelism)
    wanted = _fixed(parallelism=parallelism)
    return _mutate(store, SettingsChange.RESCALE, requested_by, clock, wanted, value=parallelism)


def repair_job(
    *,
    store: BackfillStore,
    requested_by: str,
    vnodes: Iterable[int | str] = (),
    keys: Iterable[object] = (),
    units: Iterable[object] = (),
    clock: Clock = utc_now,
) -> JobSettings:
    """
    Rewrite chosen rows of the view at the next barrier, once, as of that barrier's offset.

    Rows that were not read yet stay unread. Requesting the same repair again before that barrier has no effect.

    :param vnodes: numbers and ranges of vnodes, such as ``["0-15", 20]``.
    :param keys: single keys of the upstream, each a value, or a list with a value for each key column.
    :param units: single units of the view, likewise with a value for each column that identifies a unit. If units are
        rows of the upstream, these are its keys.
    :raises InvalidJobError: if nothing is chosen, or a vnode, key or unit that the job does not have.
    """
    settings = store.settings()
    chosen = _chosen(settings, vnodes, keys, units)
    if not chosen:
        raise InvalidJobError("repair: nothing is chosen; name vnodes, keys, or both")
    if (named := len(chosen.keys) + len(chosen.units)) > MOST_KEYS:
        raise InvalidJobError(
            f"repair: {named} keys are too many for one repair; allowed are {MOST_KEYS}, or whole vnodes"
        )
    pinned = store.newest_barrier(settings)

    def apply(settings: JobSettings) -> JobSettings | None:
        require_not_cancelled(settings)
        waits = settings.sequence > (pinned.settings_sequence if pinned else 0)
        if waits and settings.change is SettingsChange.REPAIR and settings.repair == chosen:
            return None
        return settings.changed(
            SettingsChange.REPAIR,
            requested_by=requested_by,
            requested_at=clock(),
            repair=chosen,
            repair_sequence=settings.sequence + 1,
        )

    return store.change_settings(apply)


def cancel(backfill: Backfill, *, requested_by: str, clock: Clock = utc_now) -> JobSettings | None:
    """
    Stop a job for good; of a job that was never created, remove what its creation left.

    :returns: the settings in force; ``None`` if the job was never created.
    :raises JobNotCreatedError: if it was never created, and there is nothing to remove.
    :raises InvalidJobError: if the control tables belong to another job.
    """
    if not backfill.store.created():
        cancel_uncreated(backfill.job, backfill.store, backfill.upstream)
        return None
    backfill.require_ours()
    return cancel_job(store=backfill.store, requested_by=requested_by, clock=clock)


def cancel_job(*, store: BackfillStore, requested_by: str, clock: Clock = utc_now) -> JobSettings:
    """
    Stop a job for good: no new barrier is injected, and the view stays as the last epoch left it.

    The strategy's tables are deleted, unless the job keeps them; if an epoch is pinned, after it is committed.
    Cancelling again completes a cancellation that died. A rebuild that grows beside the view ends, too.
    """
    settings = _mutate(store, SettingsChange.CANCEL, requested_by, clock, _fixed(cancelled=True, successor=None))
    clean_up_after_cancelling(store)
    delete_unused(store)
    return settings


def _fixed(**fields: object) -> Callable[[JobSettings], Mapping[str, object]]:
    """Return a change of the settings to values that do not depend on those in force."""
    return lambda _: fields


def _limits_of(settings: JobSettings) -> ShapeLimits:
    """Return what the shape of a job's view cannot do, under the job's strategy."""
    return ShapeLimits(SHAPES.named(settings.shape), settings.job["query"], settings.strategy)


def _mutate(
    store: BackfillStore,
    change: SettingsChange,
    requested_by: str,
    clock: Clock,
    wanted: Callable[[JobSettings], Mapping[str, object]],
    *,
    value: RateLimit = None,
) -> JobSettings:
    def apply(settings: JobSettings) -> JobSettings | None:
        if settings.cancelled and change is SettingsChange.CANCEL:
            return None
        require_not_cancelled(settings)
        fields = wanted(settings)
        if all(getattr(settings, name) == field for name, field in fields.items()):
            return None
        return settings.changed(change, requested_by=requested_by, requested_at=clock(), value=value, **fields)

    return store.change_settings(apply)


def require_not_cancelled(settings: JobSettings) -> None:
    """
    Refuse a cancelled job.

    :raises JobCancelledError: if it was cancelled.
    """
    if settings.cancelled:
        raise JobCancelledError(f"job {settings.job['name']} was cancelled; rebuild it to start over")


def _chosen(
    settings: JobSettings, vnodes: Iterable[int | str], keys: Iterable[object], units: Iterable[object]
) -> Repair:
    """Return what is to be repaired, in the form that barriers pin."""
    job = settings.definition
    of_vnodes = Repair(vnodes=tuple(sorted(parse_vnodes(list(vnodes), job.vnode_count))))
    named = list(keys)
    if shape_of(job).has_keys:
        of_keys = (
            encoded_whole_key(key, settings.key_order, "key of the upstream", "repair") for key in [*named, *units]
        )
        return of_vnodes + Repair(keys=tuple(dict.fromkeys(of_keys)))
    order = resolved_query_of(settings).units(settings, by_key=False).order
    if named:
        raise InvalidJobError(
            f"repair: rows of the view are not rows of the upstream, so keys do not name them; name units, each with a "
            f"value for {', '.join(order.names) or 'no column'}, or vnodes"
        )
    of_units = (encoded_whole_key(unit, order, "unit of the view", "repair") for unit in units)
    return of_vnodes + Repair(units=tuple(dict.fromkeys(of_units)))
