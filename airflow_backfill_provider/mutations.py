"""
Steering a running job: pause, resume, throttle, cancel.

Each is a new record of the job's settings, in force from the next barrier on, which carries it into the log. The
snapshot stops and starts; changes flow on. Ports ``Mutation::Pause``, ``Resume``, ``Throttle`` and ``Stop``.
"""

from __future__ import annotations

from airflow_backfill_provider.core.errors import InvalidJobError, JobCancelledError
from airflow_backfill_provider.core.job import GREATEST_RATE_LIMIT
from airflow_backfill_provider.core.settings import JobSettings, SettingsChange
from airflow_backfill_provider.protocol import Clock, utc_now
from airflow_backfill_provider.state.store import BackfillStore


def pause_job(*, store: BackfillStore, requested_by: str, clock: Clock = utc_now) -> JobSettings:
    """Read no snapshot from the next barrier on; changes are still applied."""
    return _mutate(store, SettingsChange.PAUSE, requested_by, clock, paused=True)


def resume_job(*, store: BackfillStore, requested_by: str, clock: Clock = utc_now) -> JobSettings:
    """Read the snapshot again from the next barrier on."""
    return _mutate(store, SettingsChange.RESUME, requested_by, clock, paused=False)


def throttle_job(
    rate_limit: int | None, *, store: BackfillStore, requested_by: str, clock: Clock = utc_now
) -> JobSettings:
    """
    Read at most so many snapshot rows an epoch from the next barrier on.

    :param rate_limit: rows; ``None`` is unlimited, 0 reads none.
    :raises InvalidJobError: if it is negative.
    """
    if rate_limit is not None and not 0 <= rate_limit <= GREATEST_RATE_LIMIT:
        raise InvalidJobError(
            f"rate_limit: {rate_limit} is not allowed; allowed are null (unlimited), 0 (paused) and up to "
            f"{GREATEST_RATE_LIMIT}"
        )
    return _mutate(store, SettingsChange.THROTTLE, requested_by, clock, rate_limit=rate_limit, value=rate_limit)


def cancel_job(*, store: BackfillStore, requested_by: str, clock: Clock = utc_now) -> JobSettings:
    """Stop a job for good: no barrier is injected any more. Its view stays as the last epoch left it."""
    return _mutate(store, SettingsChange.CANCEL, requested_by, clock, cancelled=True)


def _mutate(
    store: BackfillStore, change: SettingsChange, requested_by: str, clock: Clock, **fields: object
) -> JobSettings:
    wanted = {name: value for name, value in fields.items() if name != "value"}

    def apply(settings: JobSettings) -> JobSettings | None:
        if settings.cancelled:
            if change is SettingsChange.CANCEL:
                return None
            raise JobCancelledError(f"job {settings.job['name']} was cancelled; rebuild it to start over")
        if all(getattr(settings, name) == value for name, value in wanted.items()):
            return None
        return settings.changed(change, requested_by=requested_by, requested_at=clock(), **fields)

    return store.change_settings(apply)
