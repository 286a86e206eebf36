"""Chooses the strategy that a job is created with, and estimates the cost of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.job.definition import AUTO, BackfillJob
from airflow_backfill_provider.core.job.visibility import Visibility
from airflow_backfill_provider.core.kinds import JobShape, further_leads, shape_of_job
from airflow_backfill_provider.core.refresh import THROUGH_A_ROW_VIEW
from airflow_backfill_provider.core.shape_limits import ShapeLimits
from airflow_backfill_provider.sources.base import Source
from airflow_backfill_provider.sources.description import UpstreamDescription
from airflow_backfill_provider.strategies import KINDS
from airflow_backfill_provider.strategies.base import Strategy
from airflow_backfill_provider.strategies.cost import CostEstimate
from airflow_backfill_provider.strategies.inputs import SeenUpstream, StrategyInputs


@dataclass(frozen=True, slots=True)
class StrategyChoice:
    """
    The strategy that a job is created with, and why.

    :param strategy: the strategy.
    :param reason: a text for the dry run.
    :param estimates: the cost of each strategy that could have been chosen, by its name.
    """

    strategy: Strategy
    reason: str
    estimates: Mapping[str, CostEstimate]


def choose_strategy(
    job: BackfillJob,
    upstream: Source,
    described: UpstreamDescription,
    others: Mapping[str, SeenUpstream] = MappingProxyType({}),
) -> StrategyChoice:
    """
    Choose a job's strategy: the one that it names, or for ``auto`` the first that fits.

    :param described: the upstream as of the offset to choose by.
    :param others: the upstreams beside the one that leads, by their names. Those that lead further branches count.
    :raises InvalidJobError: if none fits.
    """
    shape = shape_of_job(job)
    _require_changes(job, shape, upstream, described)
    further = {name: others[name] for name in further_leads(job) if name in others}
    inputs = StrategyInputs.of(job, upstream, described, further)
    suited = [kind for kind in KINDS if kind.name in (shape.strategies or KINDS.names)]
    for lead in (upstream, *(seen.source for seen in further.values())):
        suited = [kind for kind in suited if kind.can_read(lead)]
        if shape.strategies is not None and not suited:
            raise InvalidJobError(
                f"query: a view of shape {shape.name} is filled by strategy {' or '.join(sorted(shape.strategies))}, "
                f"and none of these can read {lead.location}; {THROUGH_A_ROW_VIEW}"
            )
    refused = {kind.name: _refusal(job, shape, kind) for kind in suited}
    could = [kind for kind in suited if kind.only_visibility in {None, job.visibility} and not refused[kind.name]]
    estimates = {kind.name: kind.cost(inputs) for kind in could}
    if job.strategy != AUTO:
        named = KINDS.named(job.strategy)
        if named not in suited:
            raise InvalidJobError(
                f"strategy: {named.name} cannot read {upstream.location}; use auto, or "
                f"{', '.join(kind.name for kind in suited)}"
            )
        _require_windows(job, named)
        named.require_possible(inputs)
        return StrategyChoice(named, "the job asks for it", estimates)
    against = [refusal for refusal in refused.values() if refusal]
    whole = {kind.name for kind in could if ShapeLimits(shape, job.query, kind.name).reads_at_once}
    large = inputs.rows > MOST_ROWS_AT_ONCE and any(kind.name not in whole for kind in could)
    for kind in could:
        if large and kind.name in whole:
            against.append(f"strategy {kind.name} would group all of {inputs.rows:,} rows in one epoch")
            continue
        offer = kind.offer(inputs)
        if offer.fits:
            because = offer.reason or "; ".join(against)
            return StrategyChoice(kind, f"chosen by auto, because {because}", estimates)
        against.append(offer.reason)
    raise InvalidJobError(f"strategy: no strategy suits the job: {'; '.join(against)}")


MOST_ROWS_AT_ONCE = 50_000_000
"""The most rows that ``auto`` lets one epoch group; of more, a strategy reads some groups at a time."""


def _refusal(job: BackfillJob, shape: JobShape, kind: Strategy) -> str:
    """Return why a view of the job's shape cannot be filled by a strategy; an empty text if it can."""
    named = job.model_copy(update={"strategy": kind.name})
    try:
        _require_windows(job, kind)
        shape.require_job(named)
        ShapeLimits(shape, job.query, kind.name).require(
            visibility=job.visibility, parallelism=job.parallelism, speed=job.rate.limits
        )
    except InvalidJobError as refusal:
        return str(refusal)
    return ""


def _require_windows(job: BackfillJob, kind: Strategy) -> None:
    """
    Refuse a strategy that does not end windows at the point that the job begins at, if its view depends on that.

    Changes of several upstreams wait until then, and former rows are kept since then.

    :raises InvalidJobError: with what to do.
    """
    if job.others and job.visibility is not Visibility.EVERY_EPOCH and not kind.ends_windows:
        raise InvalidJobError(
            f"visibility: changes of several upstreams cannot wait under strategy {kind.name}; use strategy snapshot, "
            "or every_epoch"
        )
    if job.kept_since is not None and not kind.ends_windows:
        raise InvalidJobError(
            f"as_of: strategy {kind.name} reads rows as of the epochs that read them, so there are no former rows of "
            "them before; use strategy snapshot"
        )


def _require_changes(job: BackfillJob, shape: JobShape, upstream: Source, described: UpstreamDescription) -> None:
    """
    Refuse an upstream whose changes do not say what the query's shape needs to know of them.

    :raises InvalidJobError: with what they lack.
    :raises UpstreamError: if they cannot be read.
    """
    if not shape.needs_changes:
        return
    described.require_changes()
    if upstream.may_be_cleared and not shape.has_keys:
        raise InvalidJobError(
            f"query: all rows of {upstream.location} may be removed at once (TRUNCATE), and a view of shape "
            f"{shape.name} does not have the rows to remove; {THROUGH_A_ROW_VIEW}"
        )
    needed, known = shape.query(job.query).old_columns(list(described.types)) or (), upstream.old_columns
    if lacking := [] if known is None else [name for name in needed if name not in known]:
        raise InvalidJobError(
            f"query: a view of shape {shape.name} needs the value that {', '.join(lacking)} had before a change, and "
            f"changes of {upstream.location} have only {', '.join(sorted(known or ())) or 'no column'} of that; "
            f"{THROUGH_A_ROW_VIEW}"
        )
