"""Verifies a view from a terminal, repairs the differences, and prints the result."""

from __future__ import annotations

from collections.abc import Callable

from rich.console import Console

from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.job.requester import Requester
from airflow_backfill_provider.core.status import verification_text
from airflow_backfill_provider.core.status.verification import Verification
from airflow_backfill_provider.core.status.verified_state import VerifiedState
from airflow_backfill_provider.jobs.backfill import Backfill
from airflow_backfill_provider.jobs.verification import verifier
from airflow_backfill_provider.protocol import repairs


def verify(
    backfill: Backfill,
    *,
    engine: Callable[[], verifier.Comparer],
    requester: Requester,
    anew: bool,
    steps: int | None,
    console: Console | None,
) -> VerifiedState:
    """
    Verify a job, and return the result.

    :param anew: begin a new verification, even if the newest one is not finished.
    :param steps: the number of steps of a new verification.
    :param console: prints the steps and the result; ``None`` prints nothing.
    :raises BackfillError: as :func:`airflow_backfill_provider.jobs.verification.verifier.verify_job`.
    """

    def say_step(so_far: Verification) -> None:
        step = so_far.compared[-1]
        if console is not None and len(so_far.pinned.steps) > 1:
            left = len(so_far.steps_left)
            console.print(f"{len(so_far.compared)} of {len(so_far.compared) + left} steps, {step.seconds:.0f} s")

    found = VerifiedState.of(
        verifier.verify_job(backfill, engine=engine, requester=requester, anew=anew, steps=steps, on_step=say_step)
    )
    if console is not None:
        say_result(backfill.job.name, found, console)
    return found


def repair(
    backfill: Backfill, *, engine: Callable[[], repairs.Repairer], requester: Requester, console: Console
) -> VerifiedState:
    """
    Repair the differences that the newest verification found, verify again, and return the result.

    :raises BackfillError: as :func:`airflow_backfill_provider.protocol.repairs.repair_what_differs`.
    """
    before = VerifiedState.of(verifier.newest_result(backfill))
    if before.equal:
        console.print(f"{backfill.job.name}: nothing differed as of epoch {before.epoch}; there is nothing to repair")
        return before

    def say_epoch(barrier: Barrier) -> None:
        what = "repaired" if barrier.repair else "was pinned before; committed"
        console.print(f"epoch {barrier.epoch}: {what}")

    after = VerifiedState.of(
        repairs.repair_what_differs(backfill, engine=engine, requester=requester, on_epoch=say_epoch)
    )
    say_result(backfill.job.name, after, console)
    return after


def say_result(job: str, found: VerifiedState, console: Console) -> None:
    """Print the result of a verification."""
    console.print(verification_text.compared_line(job, found))
    for key in found.sample:
        console.print(f"  {verification_text.key_line(key)}")
    if found.differing_keys > len(found.sample):
        console.print(f"  and {found.differing_keys - len(found.sample):,} more, in the vnodes {found.vnodes}")
