"""What comes at the end of a job: its view is marked finished, exactly once, and the strategy's tables go."""

from __future__ import annotations

from airflow_backfill_provider.core.errors import NotFinishedError
from airflow_backfill_provider.core.requester import is_task_run
from airflow_backfill_provider.core.settings import JobSettings, SettingsChange
from airflow_backfill_provider.protocol.clock import Clock, utc_now
from airflow_backfill_provider.state.store import BackfillStore
from airflow_backfill_provider.strategies import KINDS


def finish_job(*, store: BackfillStore, requested_by: str, clock: Clock = utc_now) -> JobSettings:
    """
    Record that the materialized view is finished, exactly once, and delete the strategy's tables unless they are kept.

    :returns: the settings, whose ``finished_epoch`` is the epoch of the first commit with every vnode Completed.
    :raises NotFinishedError: if a vnode is not Completed, the epoch that completed them is not committed, or the job
        is rebuilt meanwhile.
    """
    settings = store.settings()
    if settings.finished_epoch is not None:
        _clean_up(settings, store)
        return settings
    state = store.state()
    completing = [commit for commit in store.commits(since_epoch=state.epoch) if commit.completed]
    if not (state.completed and completing):
        raise NotFinishedError(
            f"job {settings.job['name']} is not finished: not every vnode is Completed as of epoch {state.epoch}; run "
            "more epochs"
        )

    def change(current: JobSettings) -> JobSettings | None:
        if current.finished_epoch is not None or current.incarnation != settings.incarnation:
            return None
        return current.changed(
            SettingsChange.FINISH,
            requested_by=requested_by,
            requested_at=clock(),
            finished_epoch=completing[0].epoch,
        )

    finished = store.change_settings(change)
    if finished.finished_epoch is None:
        # The settings in force are those of a rebuild, whose tables are needed.
        raise NotFinishedError(f"job {settings.job['name']} is not finished: it was rebuilt meanwhile; run more epochs")
    _clean_up(finished, store)
    return finished


def tell_of_finish(*, store: BackfillStore, requested_by: str, clock: Clock = utc_now) -> str:
    """
    Return the task run that tells Airflow of a finished view: the one that finished it, or the first that comes after.

    Somebody at a command line has no asset events, so the first task run that finds the view finished by one takes the
    finish over: it writes the record once more.

    :param requested_by: the task run that asks.
    """
    while True:
        history = store.settings_history()
        seen = history[-1]
        finisher = next(record.requested_by for record in reversed(history) if record.change is SettingsChange.FINISH)
        if is_task_run(finisher) or seen.finished_epoch is None:
            return finisher

        def take_over(settings: JobSettings, seen: JobSettings = seen) -> JobSettings | None:
            if settings.sequence != seen.sequence:
                return None
            return settings.changed(SettingsChange.FINISH, requested_by=requested_by, requested_at=clock())

        store.change_settings(take_over)


def clean_up_after_cancelling(store: BackfillStore) -> None:
    """
    Delete the strategy's tables of a cancelled job, unless they are kept, or an epoch is half done that needs them.

    Whoever looks at the cancelled job next does it where a process died before.
    """
    settings = store.settings()
    if not settings.cancelled or settings.start is None:
        return
    newest = store.newest_barrier(settings)
    if newest is None or store.commit_of(newest.epoch) is not None:
        _clean_up(settings, store)


def _clean_up(settings: JobSettings, store: BackfillStore) -> None:
    strategy = KINDS.named(settings.strategy)
    if not strategy.keeps_tables(settings):
        strategy.clean_up(settings, store.storage_options)
