"""
Give up an epoch that cannot be done as pinned, so that the next one gets a new barrier.

A barrier is the same for every attempt (I2), so a fault in its pinned offsets stays: a row on which the query fails, or
a key of two rows. The upstream's owner corrects it at a later offset, which only a later barrier reads.

Written parts of the epoch stay, and the rest is never written: each unwritten part is fenced, so that a delayed attempt
cannot write it (I5). The table's own log decides whether a part was written or fenced first, so every process that
gives the epoch up comes to the same result.
"""

from __future__ import annotations

import datetime as dt
import logging

from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.epoch.crash_points import CrashPoint, reached
from airflow_backfill_provider.core.epoch.engine import EpochWrites
from airflow_backfill_provider.core.epoch.epoch_record import EpochCommit, GivenUpEpoch
from airflow_backfill_provider.core.epoch.failures import EpochFailure, GivenUp
from airflow_backfill_provider.core.epoch.giving_up import all_given_up, chunk_given_up
from airflow_backfill_provider.core.epoch.settings import JobSettings
from airflow_backfill_provider.core.epoch.stages import StageKind, stage_of
from airflow_backfill_provider.core.errors import BackfillError, EpochGivenUpError, QueryFailedError
from airflow_backfill_provider.jobs.strategy_tables import clean_up_after_cancelling
from airflow_backfill_provider.protocol.epoch_run import EpochRun, merge_reports, require_current
from airflow_backfill_provider.state.store import BackfillStore
from airflow_backfill_provider.strategies import KINDS

logger = logging.getLogger(__name__)


def give_up(run: EpochRun, error: BackfillError) -> EpochCommit | None:
    """
    Give up the rest of an epoch, if a new barrier may avoid its error.

    :param error: why the attempt failed.
    :returns: the epoch's commit, given up or not; ``None`` if the epoch stays pinned.
    """
    if not (error.gives_epoch_up or isinstance(error, EpochGivenUpError)):
        return None
    try:
        return _given_up(run, error)
    except BackfillError as problem:
        committed = run.store.commit_of(run.barrier.epoch)
        if committed is None:
            logger.warning("epoch %d is not given up: %s", run.barrier.epoch, problem)
        return committed


def given_up_error(error: BackfillError, barrier: Barrier, settings: JobSettings) -> BackfillError:
    """Return the error with the addition that the epoch was given up because of it."""
    # While files are read, the next chunk is of the same version again, and a correction comes after it.
    reads_one_version = KINDS.named(settings.strategy).ends_windows and barrier.parts and not barrier.replay
    what_to_do = (
        f"Its rows are read as of {settings.definition.upstream.offset_name} {barrier.chunk_offset} until all are "
        "read, so the next epoch fails in the same way: correct the cause and rebuild the job"
        if reads_one_version and isinstance(error, QueryFailedError)
        else "Correct the cause and run the next epoch, which pins a new barrier; no rebuild is needed"
    )
    return type(error)(
        f"{error}. Epoch {barrier.epoch} of job {barrier.job} is given up: what is not written of it never will be. "
        f"{what_to_do}"
    )


def still_pinned_error(error: BackfillError, barrier: Barrier) -> BackfillError:
    """Return the error with the addition that the epoch could not be given up."""
    return type(error)(
        f"{error}. Epoch {barrier.epoch} of job {barrier.job} could not be given up and stays pinned: run it again, "
        "and rebuild the job if it fails in the same way"
    )


def record_failure(barrier: Barrier, error: Exception, *, store: BackfillStore, by: str, now: dt.datetime) -> None:
    """Record a failed attempt; only log it if that fails too, because the attempt's own error matters more."""
    ours = isinstance(error, BackfillError)
    failure = EpochFailure(
        epoch=barrier.epoch,
        incarnation=barrier.incarnation,
        error=type(error).__name__,
        message=str(error) if ours else "",
        by=by,
        at=now,
        retryable=isinstance(error, BackfillError) and error.retryable,
    )
    try:
        store.record_failure(barrier, failure)
    except Exception as problem:  # noqa: BLE001 - whatever it is, the attempt failed for another reason
        logger.info("the failure of epoch %d is not recorded: %s", barrier.epoch, type(problem).__name__)


def _given_up(run: EpochRun, error: BackfillError) -> EpochCommit:
    barrier, settings, store = run.barrier, run.settings, run.store
    require_current(barrier, store.settings_for(barrier), store)
    reached(CrashPoint.BEFORE_FENCE)
    written = run.engine.fence_chunk(settings, barrier)
    reached(CrashPoint.AFTER_CHUNK_FENCE)
    # The changes are written before the chunk.
    applied = bool(written) or None in run.reported() or not run.engine.fence_changes(settings, barrier)
    reached(CrashPoint.AFTER_FENCE)
    writes = _writes(run, written) if applied else EpochWrites({}, 0)
    if applied and len(written) == len(barrier.parts):
        return run.commit(writes)
    why = _why(run, error)
    if applied:
        left = chunk_given_up(barrier, written, why=why)
    else:
        left = all_given_up(barrier, previous=store.barrier_before(barrier, settings), settings=settings, why=why)
    state, tables = run.commit_state(left, writes, {})
    left = left.model_copy(update={"completes": state.completed})
    tables = tables.model_copy(update={"rows_present": run.rows_present(left, writes)})
    reached(CrashPoint.BEFORE_GIVING_UP)
    commit = run.committed(left, state, tables, writes)
    with stage_of(StageKind.COMMIT_LOG).entered({}):
        recorded = store.record_given_up(GivenUpEpoch(barrier=left, commit=commit))
    clean_up_after_cancelling(store)
    return recorded


def _writes(run: EpochRun, written: frozenset[int]) -> EpochWrites:
    """Return what was written of an epoch; parts without a report are run again, which writes only what is missing."""
    barrier, settings = run.barrier, run.settings
    reports = run.reported()
    if None not in reports:
        run.record(None, run.engine.apply_changes(settings, barrier, since=run.since))
    for part in sorted(written - reports.keys()):
        run.record(part, run.engine.read_chunk_part(settings, barrier, part, since=run.since))
    reports = run.reported()
    return merge_reports([reports[part] for part in (None, *sorted(written))])


def _why(run: EpochRun, error: BackfillError) -> GivenUp:
    """Return why the epoch is given up; if another attempt began to give it up, that attempt's reason, if known."""
    name, message, by = type(error).__name__, str(error), run.by
    if isinstance(error, EpochGivenUpError):
        known = [failure for failure in run.store.failures(since_epoch=run.barrier.epoch) if not failure.retryable]
        known = [failure for failure in known if failure.epoch == run.barrier.epoch]
        if known:
            name, message, by = known[-1].error, known[-1].message, known[-1].by
    return GivenUp(
        error=name,
        message=message,
        by=by,
        at=run.clock(),
        to_offset=run.barrier.upstream.to_offset,
        settings_sequence=run.barrier.settings_sequence,
    )
