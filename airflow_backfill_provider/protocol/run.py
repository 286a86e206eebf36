"""Run a pinned barrier, as a whole or part by part, and commit its epoch."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from typing import TypeVar

from airflow_backfill_provider.core.clock import Clock, utc_now
from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.epoch.engine import Engine, PartWrites
from airflow_backfill_provider.core.epoch.epoch_record import EpochCommit
from airflow_backfill_provider.core.epoch.giving_up import require_not_given_up
from airflow_backfill_provider.core.epoch.stages import timed
from airflow_backfill_provider.core.errors import BackfillError, EpochFailedError, EpochGivenUpError, StateError
from airflow_backfill_provider.protocol.epoch_run import EpochRun, reported_by, require_current
from airflow_backfill_provider.protocol.give_up import give_up, given_up_error, record_failure, still_pinned_error
from airflow_backfill_provider.state.store import BackfillStore

Step = TypeVar("Step")


def run_epoch(
    barrier: Barrier, *, store: BackfillStore, engine: Engine, clock: Clock = utc_now, by: str | None = None
) -> EpochCommit:
    """
    Execute a pinned barrier and commit its epoch; a no-op if it is committed.

    :param by: who runs it, for the record of a failure; by default the requester of the barrier.
    :returns: the epoch's commit in the barrier log.
    :raises StateError: if the job was rebuilt after the barrier was pinned.
    :raises BackfillError: if the epoch fails. The rows written so far are correct. If the epoch cannot be done as
        pinned, the rest of it is given up; see :mod:`~airflow_backfill_provider.protocol.give_up`.
    """

    def execute(run: EpochRun) -> EpochCommit:
        return run.commit(engine.run_epoch(run.settings, barrier, since=run.since))

    return _uncommitted(barrier, execute, store=store, engine=engine, clock=clock, by=by)


def apply_changes(
    barrier: Barrier, *, store: BackfillStore, engine: Engine, clock: Clock = utc_now, by: str | None = None
) -> EpochCommit | None:
    """
    Apply the changes of an epoch that several task runs share; this is its first step.

    :returns: the epoch's commit, if this was the last step, or the epoch is already committed.
    :raises BackfillError: as :func:`run_epoch`.
    """

    def apply(run: EpochRun) -> EpochCommit | None:
        if None in run.reported():
            return run.commit_if_reported()
        return run.report(None, engine.apply_changes(run.settings, barrier, since=run.since))

    return _uncommitted(barrier, apply, store=store, engine=engine, clock=clock, by=by)


def skip_changes(barrier: Barrier, *, store: BackfillStore, clock: Clock = utc_now) -> bool:
    """
    Do the step of :func:`apply_changes` without an engine, if there are neither changes nor a repair.

    :returns: whether the step is done.
    """
    if barrier.has_changes or barrier.rewrites_rows or not barrier.parts:
        return False
    store.record_report(barrier, reported_by(barrier, None, PartWrites({}), clock()))
    return True


def read_chunk_part(
    barrier: Barrier, part: int, *, store: BackfillStore, engine: Engine, clock: Clock = utc_now, by: str | None = None
) -> EpochCommit | None:
    """
    Read one part of the chunk of an epoch that several task runs share; the last to report commits the epoch.

    :param part: the part's index in the barrier.
    :returns: the epoch's commit, if this was the last part, or the epoch is already committed.
    :raises EpochFailedError: if the changes are not applied yet.
    :raises BackfillError: as :func:`run_epoch`.
    """
    if not 0 <= part < len(barrier.parts):
        raise StateError(f"epoch {barrier.epoch} has {len(barrier.parts)} parts, so there is no part {part}")

    def read(run: EpochRun) -> EpochCommit | None:
        reported = run.reported()
        if part in reported:
            return run.commit_if_reported()
        if None not in reported:
            raise EpochFailedError(
                f"the changes of epoch {barrier.epoch} of job {barrier.job} are not applied yet; run that step first"
            )
        return run.report(part, engine.read_chunk_part(run.settings, barrier, part, since=run.since))

    return _uncommitted(barrier, read, store=store, engine=engine, clock=clock, by=by)


def _uncommitted(
    barrier: Barrier,
    step: Callable[[EpochRun], Step],
    *,
    store: BackfillStore,
    engine: Engine,
    clock: Clock,
    by: str | None,
) -> Step | EpochCommit:
    """Take a step of an epoch, unless the epoch is committed."""
    with ExitStack() as held:
        held.enter_context(engine.exclusive(store.location))
        settings = store.settings_for(barrier)
        held.enter_context(engine.reading_ahead(settings))
        # One read for both: in an object store, each is several requests.
        commits = {commit.epoch: commit for commit in store.commits(since_epoch=barrier.prev_epoch)}
        if barrier.epoch in commits:
            require_not_given_up(commits[barrier.epoch], barrier.job)
            return commits[barrier.epoch]
        by = by or str(barrier.injected_by)
        try:
            require_current(barrier, settings, store)
            previous = commits.get(barrier.prev_epoch)
            continues = previous is not None and previous.incarnation == settings.incarnation
            since = previous.tables if previous and continues else None
            prepared: dict[str, float] = {}
            if since is None:
                with timed(prepared, "first_rows") if settings.first_rows else nullcontext():
                    engine.ensure_tables(settings, store.earlier_incarnations(settings))
            run = EpochRun(
                barrier=barrier,
                settings=settings,
                since=since,
                store=store,
                engine=engine,
                clock=clock,
                by=by,
                prepared=prepared,
            )
            return _taken(run, step)
        except Exception as error:
            record_failure(barrier, error, store=store, by=by, now=clock())
            raise


def _taken(run: EpochRun, step: Callable[[EpochRun], Step]) -> Step | EpochCommit:
    """Take a step; give the epoch up if it cannot be done as pinned."""
    barrier = run.barrier
    try:
        return _required(step(run), barrier)
    except BackfillError as error:
        # The error may come from another attempt that committed this epoch meanwhile.
        committed = run.store.commit_of(barrier.epoch)
        if committed is None:
            committed = give_up(run, error)
            if committed is None and error.gives_epoch_up:
                raise still_pinned_error(error, barrier) from error
            if committed is None:
                raise
            if committed.given_up and not isinstance(error, EpochGivenUpError):
                raise given_up_error(error, barrier, run.settings) from error
        require_not_given_up(committed, barrier.job)
        return committed


def _required(taken: Step, barrier: Barrier) -> Step:
    """Return the result of a step; refuse an epoch that another attempt gave up."""
    if isinstance(taken, EpochCommit):
        require_not_given_up(taken, barrier.job)
    return taken
