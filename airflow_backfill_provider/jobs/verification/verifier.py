"""
Verifies a view: pins what to compare, compares it step by step, and records the result.

A verification and epochs don't wait for each other: a verification reads view and upstream at the versions of one
committed epoch, whatever is written meanwhile. It decides what to compare from the committed state and the tables
themselves, not with the code that planned the epochs.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Protocol

from airflow_backfill_provider.core.clock import Clock, utc_now
from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.epoch.epoch_record import EpochCommit
from airflow_backfill_provider.core.epoch.repair import MOST_KEYS, Repair
from airflow_backfill_provider.core.epoch.settings import JobSettings, SettingsChange
from airflow_backfill_provider.core.errors import (
    BackfillError,
    ChangeFeedGapError,
    ConcurrentUpdateError,
    DataFileError,
    MaterializedViewError,
    NotVerifiedError,
    StateError,
    UpstreamNotFoundError,
    VerificationFailedError,
    VersionGoneError,
    ViewDiffersError,
)
from airflow_backfill_provider.core.job.requester import Requester
from airflow_backfill_provider.core.scan.progress import BackfillState
from airflow_backfill_provider.core.scan.scan import VnodeRange
from airflow_backfill_provider.core.status.verification import (
    AskedVerification,
    ComparedVnodes,
    PinnedVerification,
    Verification,
    read_vnodes,
    steps_of,
)
from airflow_backfill_provider.jobs.backfill import Backfill
from airflow_backfill_provider.jobs.lost_rows import require_computed_again
from airflow_backfill_provider.jobs.mutations import require_not_cancelled
from airflow_backfill_provider.lake.tables.verified_tables import table_id, view_version_of
from airflow_backfill_provider.lake.tables.view_identity import ViewIdentity, view_identity
from airflow_backfill_provider.shapes import resolved_query_of, shape_of

_READS = 10
"""How often the newest epoch is read again because another one was committed meanwhile."""

_GONE = (VersionGoneError, ChangeFeedGapError, DataFileError)
"""The errors of a version that can no longer be read, because its log entries or files were cleaned up."""

logger = logging.getLogger(__name__)

COMPARER = Requester(user="compare_now")


class Comparer(Protocol):
    """The interface that a verification needs from Spark; see :mod:`airflow_backfill_provider.engine`."""

    def compare(
        self, settings: JobSettings, pinned: PinnedVerification, barrier: Barrier, vnodes: VnodeRange
    ) -> ComparedVnodes:
        """Compare some vnodes of the view with the query over the upstream."""
        ...


def begin_verification(
    backfill: Backfill,
    *,
    requester: Requester,
    anew: bool = False,
    steps: int | None = None,
    clock: Clock = utc_now,
) -> Verification:
    """
    Begin a verification of the newest committed epoch, or continue the newest verification if it is not finished.

    :param requester: who requests it.
    :param anew: begin a new verification in any case.
    :param steps: the number of steps of a new verification; by default it depends on the upstream's rows.
    :raises NotVerifiedError: if no epoch is committed, so there is nothing to verify.
    :raises BackfillError: if the view or the upstream is no longer the job's table.
    """
    unfinished = None if anew else _unfinished(backfill)
    if unfinished is not None:
        return unfinished
    pin = _pin(backfill, requester=requester, steps=steps, clock=clock)
    return backfill.verifications.begin(pin)


def ask_for_verification(backfill: Backfill, *, requested_by: str, clock: Clock = utc_now) -> AskedVerification:
    """
    Request a verification. The next epoch carries it out after its commit.

    Does nothing if one is waiting already.

    :raises JobCancelledError: if the job is cancelled.
    """
    settings, verifications = backfill.settings(), backfill.verifications
    require_not_cancelled(settings)
    return verifications.waiting(settings.incarnation) or verifications.ask(
        lambda number: AskedVerification(
            number=number,
            job=settings.job["name"],
            incarnation=settings.incarnation,
            requested_by=requested_by,
            requested_at=clock(),
        )
    )


def carry_out_waiting(backfill: Backfill, engine: Comparer) -> Verification | None:
    """
    Carry out the verification that is waiting, if there is one.

    :raises BackfillError: as :func:`verify_job`.
    """
    asked = backfill.verifications.waiting(backfill.settings().incarnation)
    if asked is None:
        return None
    return verify_job(backfill, engine=lambda: engine, requester=Requester(user=asked.requested_by), anew=True)


def next_step(backfill: Backfill, verification: Verification, engine: Comparer) -> Verification:
    """
    Carry out the next step of a verification, and record its result.

    :raises VersionGoneError: if a compared version can no longer be read.
    :raises BackfillError: if the tables were replaced, or cannot be read.
    """
    compared = _compare(backfill, verification.pinned, verification.steps_left[0], engine)
    recorded = backfill.verifications.record(verification.pinned, compared)
    if recorded.equal:
        _note_equal(backfill, recorded)
    return recorded


def _note_equal(backfill: Backfill, verification: Verification) -> None:
    """Note that an adopted view equals the query, so that epochs refuse a key that is there twice from now on."""

    def change(settings: JobSettings) -> JobSettings | None:
        is_known = settings.adopted is None or settings.equal_sequence > 0
        if is_known or settings.incarnation != verification.pinned.incarnation:
            return None
        return settings.changed(
            SettingsChange.FOUND_EQUAL,
            requested_by=str(verification.pinned.begun_by),
            requested_at=verification.verified_at,
            equal_sequence=settings.sequence + 1,
        )

    if change(backfill.settings()) is not None:
        backfill.store.change_settings(change)


def ignore(news: object) -> None:
    """Do nothing; the default of callbacks."""
    del news


def verify_job(
    backfill: Backfill,
    *,
    engine: Callable[[], Comparer],
    requester: Requester,
    anew: bool = False,
    steps: int | None = None,
    on_step: Callable[[Verification], None] = ignore,
    clock: Clock = utc_now,
) -> Verification:
    """
    Verify a job. Continue an unfinished verification, or begin a new one if its versions can no longer be read.

    :param engine: creates the engine, once there is something to compare.
    :param on_step: called with the verification after each step.
    :returns: the finished verification.
    :raises BackfillError: as :func:`begin_verification` and :func:`next_step`.
    """
    resumed = None if anew else _unfinished(backfill)
    verification = resumed or begin_verification(backfill, requester=requester, anew=anew, steps=steps, clock=clock)
    comparer = engine()
    while not verification.finished:
        try:
            verification = next_step(backfill, verification, comparer)
        except _GONE as error:
            if resumed is None:
                raise
            verification = _begin_again(backfill, resumed, error, requester=requester, steps=steps, clock=clock)
            resumed = None
            continue
        on_step(verification)
    return verification


def _unfinished(backfill: Backfill) -> Verification | None:
    """Return the newest verification, if it is not finished."""
    newest = backfill.verifications.newest(backfill.settings().incarnation)
    return None if newest is None or newest.finished else newest


def _begin_again(
    backfill: Backfill,
    resumed: Verification,
    error: BackfillError,
    *,
    requester: Requester,
    steps: int | None,
    clock: Clock,
) -> Verification:
    """
    Begin a new verification in place of one that can never be finished.

    :param error: why it cannot be finished; raised again if a new one would compare the same versions.
    """
    pin = _pin(backfill, requester=requester, steps=steps, clock=clock)
    was, now = resumed.pinned, pin(resumed.pinned.number)
    if (was.upstream_version, was.view_version) == (now.upstream_version, now.view_version):
        raise error
    begun = backfill.verifications.begin(pin)
    logger.warning(
        "verification %d of job %s, of epoch %d, can no longer be finished; beginning a new one, of epoch %d: %s",
        was.number,
        was.job,
        was.epoch,
        begun.pinned.epoch,
        error,
    )
    return begun


def pin_newest(backfill: Backfill, requester: Requester) -> PinnedVerification:
    """
    Pin the view as of the newest committed epoch, for a comparison in one step that is not recorded.

    :raises BackfillError: as :func:`begin_verification`.
    """
    return _pin(backfill, requester=requester, steps=1, clock=utc_now)(0)


def compare_now(backfill: Backfill, engine: Comparer) -> Verification:
    """
    Compare the view with its query as of the newest committed epoch, in one step, without recording the result.

    :raises BackfillError: as :func:`verify_job`.
    """
    pinned = pin_newest(backfill, COMPARER)
    (vnodes,) = pinned.steps
    return Verification(pinned).with_step(_compare(backfill, pinned, vnodes, engine))


def newest_result(backfill: Backfill) -> Verification:
    """
    Return the newest finished verification.

    :raises NotVerifiedError: if there is none since the job was created or rebuilt.
    """
    found = backfill.verifications.newest_finished(backfill.settings().incarnation)
    if found is None:
        raise NotVerifiedError(f"job {backfill.job.name} was not verified yet; verify it first")
    return found


def what_differs(backfill: Backfill, verification: Verification) -> Repair:
    """Return the repair of all differences that a verification found; it is empty if nothing differs."""
    chosen = verification.repair if shape_of(backfill.job).has_keys else verification.repair_by_unit
    return chosen(backfill.job.vnode_count, MOST_KEYS)


def require_equal(backfill: Backfill, verification: Verification) -> None:
    """
    Check that a verification found no difference.

    :raises ViewDiffersError: if it did; with the number of differing keys and vnodes.
    """
    if not verification.equal:
        keys = sum(difference.keys for difference in verification.differences)
        raise ViewDiffersError(
            f"the view of job {backfill.job.name} differs from its query over the upstream as of epoch "
            f"{verification.pinned.epoch}: {keys:,} keys in {len(verification.differences):,} vnodes; repair the "
            "view, or rebuild the job"
        )


def _pin(
    backfill: Backfill, *, requester: Requester, steps: int | None, clock: Clock
) -> Callable[[int], PinnedVerification]:
    """Decide what to verify, and return a function that builds the pinned verification from its number."""
    settings, state, barrier = _committed(backfill)
    options, job = backfill.storage_options, settings.definition
    _require_view(backfill, settings)
    require_computed_again(settings, backfill.upstream, barrier.upstream.to_offset)
    view_version = view_version_of(job.view_location, settings.incarnation, barrier.epoch, options)
    view_id = table_id(job.view_location, options)
    by_key = not resolved_query_of(settings).holds_distribution_key(settings)

    def pin(number: int) -> PinnedVerification:
        return PinnedVerification(
            number=number,
            job=job.name,
            incarnation=settings.incarnation,
            epoch=barrier.epoch,
            upstream_version=barrier.upstream.to_offset,
            others={name: window.to_offset for name, window in barrier.others.items()},
            view_version=view_version,
            view_table_id=view_id,
            read=read_vnodes(state, settings.scan, settings.position_order, job.vnodes),
            by_key=by_key,
            steps=steps_of(job.vnode_count, rows=barrier.upstream.row_count, wanted=steps),
            begun_by=requester,
            begun_at=clock(),
        )

    return pin


def _committed(backfill: Backfill) -> tuple[JobSettings, BackfillState, Barrier]:
    """
    Return a consistent read of the settings, the state, and the barrier of the newest committed epoch.

    An epoch commits the view first, then the state, then the barrier log. So an epoch that is only in the state counts.
    """
    store = backfill.store
    for _ in range(_READS):
        settings, newest = backfill.settings(), _newest_commit(backfill)
        state = store.state_of(settings)
        if (backfill.settings().incarnation, _newest_commit(backfill)) != (settings.incarnation, newest):
            continue
        epoch = max(state.epoch, newest.epoch if newest else settings.base_epoch)
        barrier = None if epoch == settings.base_epoch else store.pinned(epoch)
        # If the job's first epochs were given up, its view has no version of the upstream.
        if barrier is None or barrier.upstream.reached_point is None:
            raise NotVerifiedError(
                f"no epoch of job {backfill.job.name} was committed yet, so there is nothing to verify; run it"
            )
        # The newest settings may have a changed query that no epoch has carried out yet.
        return store.settings_for(barrier), state, barrier
    raise ConcurrentUpdateError(
        f"epochs of job {backfill.job.name} are committed faster than they can be read; try again"
    )


def _newest_commit(backfill: Backfill) -> EpochCommit | None:
    """Return the newest commit of the incarnation; a late injector of an earlier one may have pinned newer epochs."""
    store, settings = backfill.store, backfill.settings()
    last, reach = store.last_epoch(), 1
    while last > settings.base_epoch:
        since = max(last - reach, settings.base_epoch + 1)
        commits = store.commits(since_epoch=since)
        ours = [commit for commit in commits if commit.incarnation == settings.incarnation]
        if ours or since == settings.base_epoch + 1:
            return ours[-1] if ours else None
        reach *= 8
    return None


def _compare(backfill: Backfill, pinned: PinnedVerification, vnodes: VnodeRange, engine: Comparer) -> ComparedVnodes:
    backfill.require_ours()
    barrier = backfill.store.pinned(pinned.epoch)
    settings = backfill.store.settings_for(barrier)
    if settings.incarnation != pinned.incarnation:
        raise StateError(f"job {pinned.job} was rebuilt while its view was being verified; verify it again")
    _require_tables(backfill, settings, pinned)
    compared = engine.compare(settings, pinned, barrier, vnodes)
    # If a table was replaced while Spark read it, the result is of another table.
    _require_tables(backfill, settings, pinned)
    return compared


def _require_tables(backfill: Backfill, settings: JobSettings, pinned: PinnedVerification) -> None:
    """Refuse tables that replaced the pinned ones."""
    _require_view(backfill, settings)
    path = settings.definition.view_location
    if table_id(path, backfill.storage_options) != pinned.view_table_id:
        raise _replaced(path, pinned.job)
    try:
        backfill.upstream.at().require_same_table(settings.upstream)
        for name, source in backfill.others.items():
            source.at().require_same_table(settings.others[name])
    except UpstreamNotFoundError as error:
        raise VerificationFailedError(f"the view cannot be verified: {error}") from error


def _require_view(backfill: Backfill, settings: JobSettings) -> None:
    path, name = settings.definition.view_location, settings.job["name"]
    if view_identity(path, backfill.storage_options) != ViewIdentity.of(settings):
        raise _replaced(path, name)


def _replaced(path: str, job: str) -> MaterializedViewError:
    return MaterializedViewError(
        f"materialized_view: {path} is no longer the view of job {job}; it was dropped or replaced: rebuild the job"
    )
