"""The endpoints that mutate a job, on behalf of Airflow's user."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from airflow.api_fastapi.core_api.security import GetUserDep
from airflow.api_fastapi.logging.decorators import action_logging
from fastapi import APIRouter, Depends, status
from pydantic import BaseModel, ConfigDict, Field

from airflow_backfill_provider.core.job.rate_limit import PaceField, RateLimitField, TargetField
from airflow_backfill_provider.jobs import cut_over, mutations
from airflow_backfill_provider.jobs.verification import verifier
from airflow_backfill_provider.jobs.verification.view_differences import difference_to_approve
from airflow_backfill_provider.plugin.access import MAY_ACT, Job, Observer
from airflow_backfill_provider.plugin.observed_job import ObservedJob
from airflow_backfill_provider.plugin.observer import Observation
from airflow_backfill_provider.plugin.registry import RegisteredJob
from airflow_backfill_provider.plugin.responses import JobRow, Problem
from airflow_backfill_provider.protocol import repairs


class Nothing(BaseModel):
    """The body of a mutation without a value."""

    model_config = ConfigDict(extra="forbid")


class Throttle(BaseModel):
    """
    The most snapshot rows of an epoch; ``null`` is unlimited, 0 reads none, ``auto`` follows the measured speed.

    :param target_epoch_seconds: how long an epoch should take with ``auto``; ``null`` keeps what is in force, or 60.
    :param max_rows_per_second: the pace of runs of several epochs; ``null`` is unlimited. Left out, it is kept.
    """

    model_config = ConfigDict(extra="forbid", strict=True)

    rate_limit: RateLimitField
    target_epoch_seconds: TargetField | None = None
    max_rows_per_second: PaceField | None = None


class Approve(BaseModel):
    """The number of the difference that the user has seen."""

    model_config = ConfigDict(extra="forbid", strict=True)

    difference: Annotated[int, Field(ge=1, le=2**31)]


class Rescale(BaseModel):
    """The number of task runs that share an epoch."""

    model_config = ConfigDict(extra="forbid", strict=True)

    parallelism: Annotated[int, Field(ge=1, le=1_000_000)]


_REFUSALS: dict[int | str, dict[str, Any]] = {
    code: {"model": Problem}
    for code in (
        status.HTTP_400_BAD_REQUEST,
        status.HTTP_401_UNAUTHORIZED,
        status.HTTP_403_FORBIDDEN,
        status.HTTP_404_NOT_FOUND,
        status.HTTP_409_CONFLICT,
        status.HTTP_415_UNSUPPORTED_MEDIA_TYPE,
        status.HTTP_422_UNPROCESSABLE_CONTENT,
        status.HTTP_503_SERVICE_UNAVAILABLE,
    )
}


router = APIRouter(prefix="/api/dags/{dag_id}/jobs/{name}", responses=_REFUSALS, dependencies=MAY_ACT)


@dataclass(frozen=True, slots=True)
class _MutatedJob:
    """The job that a request mutates, and its user."""

    job: RegisteredJob
    observed: ObservedJob
    requested_by: str

    @property
    def change(self) -> dict[str, Any]:
        """The arguments of every mutation."""
        backfill = self.observed.backfill
        backfill.require_ours()
        return {"store": backfill.store, "requested_by": self.requested_by}

    def row(self) -> JobRow:
        """Return the job's row after the mutation."""
        return JobRow.of(self.job, Observation(self.observed.look_again()))


def _mutated(job: Job, user: GetUserDep, observer: Observer) -> _MutatedJob:
    return _MutatedJob(job, observer.job(job), f"{user.get_name()} (Airflow)")


Mutated = Annotated[_MutatedJob, Depends(_mutated)]


@router.post("/pause", dependencies=[Depends(action_logging("backfill.pause"))])
def pause(mutated: Mutated, _body: Nothing) -> JobRow:
    """Read no snapshot from the next barrier on; changes are still applied."""
    mutations.pause_job(**mutated.change)
    return mutated.row()


@router.post("/resume", dependencies=[Depends(action_logging("backfill.resume"))])
def resume(mutated: Mutated, _body: Nothing) -> JobRow:
    """Read the snapshot again from the next barrier on."""
    mutations.resume_job(**mutated.change)
    return mutated.row()


@router.post("/throttle", dependencies=[Depends(action_logging("backfill.throttle"))])
def throttle(mutated: Mutated, body: Throttle) -> JobRow:
    """Change the rate limit and the pace from the next barrier on."""
    is_paced = "max_rows_per_second" in body.model_fields_set
    mutations.throttle_job(
        body.rate_limit,
        target_epoch_seconds=body.target_epoch_seconds,
        max_rows_per_second=body.max_rows_per_second if is_paced else mutations.Unchanged.KEPT,
        **mutated.change,
    )
    return mutated.row()


@router.post("/rescale", dependencies=[Depends(action_logging("backfill.rescale"))])
def rescale(mutated: Mutated, body: Rescale) -> JobRow:
    """Change how many task runs share an epoch, from the next barrier on."""
    mutations.rescale_job(body.parallelism, **mutated.change)
    return mutated.row()


@router.post("/verify", dependencies=[Depends(action_logging("backfill.verify"))])
def verify(mutated: Mutated, _body: Nothing) -> JobRow:
    """Request a verification; the next task run of an epoch carries it out after the commit."""
    verifier.ask_for_verification(mutated.observed.backfill, requested_by=mutated.requested_by)
    return mutated.row()


@router.post("/repair", dependencies=[Depends(action_logging("backfill.repair"))])
def repair(mutated: Mutated, _body: Nothing) -> JobRow:
    """Request a repair of the differences that the newest verification found; the next epoch carries it out."""
    backfill = mutated.observed.backfill
    if repairs.ask_for_repair(backfill, requested_by=mutated.requested_by) is not None:
        verifier.ask_for_verification(backfill, requested_by=mutated.requested_by)
    return mutated.row()


@router.post("/approve", dependencies=[Depends(action_logging("backfill.approve"))])
def approve(mutated: Mutated, body: Approve) -> JobRow:
    """Let what waits for an approval go live; the next epochs do the rest."""
    found = difference_to_approve(mutated.observed.backfill, body.difference)
    change = mutated.change
    cut_over.approve(found, store=change["store"], approved_by=mutated.requested_by)
    return mutated.row()


@router.post("/cancel", dependencies=[Depends(action_logging("backfill.cancel"))])
def cancel(mutated: Mutated, _body: Nothing) -> JobRow:
    """Stop the job for good; its view stays as the last epoch left it."""
    mutations.cancel_job(**mutated.change)
    return mutated.row()
