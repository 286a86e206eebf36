"""Repairs the differences that a verification found: requests the repair, runs its epoch, and verifies again."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Protocol

from airflow_backfill_provider import protocol
from airflow_backfill_provider.core.clock import Clock, utc_now
from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.epoch.settings import JobSettings
from airflow_backfill_provider.core.errors import EpochFailedError
from airflow_backfill_provider.core.job.requester import Requester
from airflow_backfill_provider.core.status.verification import Verification
from airflow_backfill_provider.jobs import mutations
from airflow_backfill_provider.jobs.backfill import Backfill
from airflow_backfill_provider.jobs.lost_rows import require_repairable
from airflow_backfill_provider.jobs.verification import verifier

_EPOCHS = 3
"""The most epochs until one carries out the repair; an epoch that is already pinned must commit first."""


class Repairer(protocol.Engine, verifier.Comparer, Protocol):
    """The interface that a repair needs from Spark."""


def ask_for_repair(backfill: Backfill, *, requested_by: str, clock: Clock = utc_now) -> JobSettings | None:
    """
    Request the repair of the differences that the newest finished verification found.

    :returns: the settings with the repair, or ``None`` if nothing differs.
    :raises NotVerifiedError: if the job was not verified yet.
    :raises JobCancelledError: if the job is cancelled.
    :raises ChangeFeedGapError: if rows are gone that its groups count.
    """
    mutations.require_not_cancelled(backfill.settings())
    chosen = verifier.what_differs(backfill, verifier.newest_result(backfill))
    if not chosen:
        return None
    return ask_for_repair_of(
        backfill, chosen.vnodes, [*chosen.keys, *chosen.units], requested_by=requested_by, clock=clock
    )


def ask_for_repair_of(
    backfill: Backfill,
    vnodes: Iterable[int | str],
    units: Iterable[object],
    *,
    requested_by: str,
    clock: Clock = utc_now,
) -> JobSettings:
    """
    Request the repair of chosen rows; see :func:`~airflow_backfill_provider.jobs.mutations.repair_job`.

    :returns: the settings with the repair.
    :raises InvalidJobError: if nothing is chosen, or something that the job does not have.
    :raises JobCancelledError: if the job is cancelled.
    :raises ChangeFeedGapError: if rows are gone that its groups count.
    """
    require_repairable(backfill)
    return mutations.repair_job(
        store=backfill.store, requested_by=requested_by, vnodes=vnodes, units=units, clock=clock
    )


def repair_what_differs(
    backfill: Backfill,
    *,
    engine: Callable[[], Repairer],
    requester: Requester,
    on_epoch: Callable[[Barrier], None] = verifier.ignore,
    clock: Clock = utc_now,
) -> Verification:
    """
    Repair the differences that the newest finished verification found, and verify again.

    :param engine: creates the engine, if anything differs.
    :param on_epoch: called with the barrier of each epoch that runs.
    :returns: the new verification, or the newest one if nothing differs.
    :raises NotVerifiedError: if the job was not verified yet.
    :raises BackfillError: if an epoch or the verification fails.
    """
    settings = ask_for_repair(backfill, requested_by=str(requester), clock=clock)
    if settings is None:
        return verifier.newest_result(backfill)
    made = engine()
    _run_repair(backfill, settings, made, requester, on_epoch, clock)
    return verifier.verify_job(backfill, engine=lambda: made, requester=requester, anew=True, clock=clock)


def _run_repair(
    backfill: Backfill,
    settings: JobSettings,
    engine: Repairer,
    requester: Requester,
    on_epoch: Callable[[Barrier], None],
    clock: Clock,
) -> None:
    """Run epochs until one that carries out the repair is committed."""
    # A task run as the requester would get the barrier that it pinned the last time.
    asking = Requester(user=str(requester))
    loop = protocol.EpochLoop(
        store=backfill.store,
        upstream=backfill.upstream,
        requester=asking,
        run=protocol.run_with(lambda _: engine, store=backfill.store, clock=clock, by=str(asking)),
        clock=clock,
    )
    for done in itertools.islice(loop, _EPOCHS):
        if done.barrier is not None:
            on_epoch(done.barrier)
            if done.barrier.settings_sequence >= settings.repair_sequence:
                return
    raise EpochFailedError(
        f"no epoch of job {backfill.job.name} carried out the repair that record {settings.repair_sequence} of its "
        "settings asks for; run the job, and verify it again"
    )
