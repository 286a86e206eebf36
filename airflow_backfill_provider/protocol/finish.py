"""Finish a job: mark its view as finished, exactly once, and delete the strategy's tables."""

from __future__ import annotations

from collections.abc import Callable

from airflow_backfill_provider.core.clock import Clock, utc_now
from airflow_backfill_provider.core.epoch.approvals import is_withheld
from airflow_backfill_provider.core.epoch.epoch_record import EpochCommit
from airflow_backfill_provider.core.epoch.settings import JobSettings, SettingsChange
from airflow_backfill_provider.core.errors import NotFinishedError
from airflow_backfill_provider.core.job.requester import is_task_run
from airflow_backfill_provider.jobs.cut_over import completed_commits
from airflow_backfill_provider.jobs.strategy_tables import delete_strategy_tables
from airflow_backfill_provider.jobs.successor_tables import delete_unused
from airflow_backfill_provider.state.store import BackfillStore


def finish_job(*, store: BackfillStore, requested_by: str, clock: Clock = utc_now) -> JobSettings:
    """
    Record that the view is finished, exactly once, and delete the strategy's tables unless the job keeps them.

    :returns: the settings; ``finished_epoch`` is the epoch of the first commit with every vnode Completed.
    :raises NotFinishedError: if a vnode is not Completed, the epoch that completed them is not committed, nobody has
        approved the view, or the job was rebuilt meanwhile.
    """
    settings = store.settings()
    if settings.finished_epoch is not None:
        delete_strategy_tables(settings, store)
        return settings
    completing = completing_commit(store, settings)
    if completing is None and store.state().completed and is_withheld(settings):
        raise NotFinishedError(
            f"job {settings.job['name']} is ready, and waits for an approval: look at the difference with "
            "airflow-backfill diff, and approve it with airflow-backfill approve"
        )
    if completing is None:
        raise NotFinishedError(
            f"job {settings.job['name']} is not finished: not every vnode is Completed as of epoch "
            f"{store.state().epoch}; run more epochs"
        )

    def change(current: JobSettings) -> JobSettings | None:
        if current.finished_epoch is not None or current.incarnation != settings.incarnation:
            return None
        return current.changed(
            SettingsChange.FINISH,
            requested_by=requested_by,
            requested_at=clock(),
            finished_epoch=completing.epoch,
        )

    finished = store.change_settings(change)
    if finished.finished_epoch is None:
        # The settings in force are those of a rebuild, which needs its tables.
        raise NotFinishedError(f"job {settings.job['name']} is not finished: it was rebuilt meanwhile; run more epochs")
    delete_strategy_tables(finished, store)
    delete_unused(store)
    return finished


def completing_commit(store: BackfillStore, settings: JobSettings) -> EpochCommit | None:
    """
    Return the first commit of the settings' incarnation that marks the view as finished; ``None`` if there is none yet.

    Every vnode is Completed then, and the view is approved, if that is asked for.
    """
    return next((commit for commit in completed_commits(store, settings) if commit.is_finished), None)


def announce_finish(
    *,
    store: BackfillStore,
    requested_by: str,
    has_failed: Callable[[str], bool] = lambda _: False,
    clock: Clock = utc_now,
) -> str:
    """
    Return the task run that reports a finished view to Airflow: the one that finished it, or the first one afterwards.

    A command line emits no asset events, and neither does a task run that failed after it finished the view. Then the
    first task run that sees this takes the finish over, by writing the record again.

    :param requested_by: the calling task run.
    :param has_failed: tells whether another task run failed for good.
    """
    while True:
        history = store.settings_history()
        newest = history[-1]
        finisher = next(record.requested_by for record in reversed(history) if record.change is SettingsChange.FINISH)
        tells = finisher == requested_by or (is_task_run(finisher) and not has_failed(finisher))
        if tells or newest.finished_epoch is None:
            return finisher

        def take_over(settings: JobSettings, newest: JobSettings = newest) -> JobSettings | None:
            if settings.sequence != newest.sequence:
                return None
            return settings.changed(SettingsChange.FINISH, requested_by=requested_by, requested_at=clock())

        store.change_settings(take_over)
