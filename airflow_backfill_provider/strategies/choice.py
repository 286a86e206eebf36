"""Chooses the strategy that a job is created with, and estimates the cost of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.job import AUTO, BackfillJob
from airflow_backfill_provider.sources.base import Source
from airflow_backfill_provider.sources.description import UpstreamDescription
from airflow_backfill_provider.strategies import KINDS
from airflow_backfill_provider.strategies.base import Strategy
from airflow_backfill_provider.strategies.cost import CostEstimate
from airflow_backfill_provider.strategies.evidence import Evidence


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


def choose_strategy(job: BackfillJob, upstream: Source, described: UpstreamDescription) -> StrategyChoice:
    """
    Choose a job's strategy: the one that it names, or for ``auto`` the first that fits.

    :param described: the upstream as of the offset to choose by.
    :raises InvalidJobError: if none fits.
    """
    evidence = Evidence.of(job, upstream, described)
    suited = [kind for kind in KINDS if kind.can_read(upstream)]
    could = [kind for kind in suited if kind.only_visibility in {None, job.visibility}]
    estimates = {kind.name: kind.cost(evidence) for kind in could}
    if job.strategy != AUTO:
        named = KINDS.named(job.strategy)
        if named not in suited:
            raise InvalidJobError(
                f"strategy: {named.name} cannot read {upstream.location}; use auto, or "
                f"{', '.join(kind.name for kind in suited)}"
            )
        named.require_possible(evidence)
        return StrategyChoice(named, "the job asks for it", estimates)
    against: list[str] = []
    for kind in could:
        offer = kind.offer(evidence)
        if offer.fits:
            because = offer.reason or "; ".join(against)
            return StrategyChoice(kind, f"chosen by auto, because {because}", estimates)
        against.append(offer.reason)
    raise InvalidJobError(f"strategy: no strategy suits the job: {'; '.join(against)}")
