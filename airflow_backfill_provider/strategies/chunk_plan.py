"""Plans the chunk of the next barrier by the job's strategy, without a JVM."""

from __future__ import annotations

from airflow_backfill_provider.strategies import KINDS
from airflow_backfill_provider.strategies.base import Situation, SnapshotPlan


def plan_snapshot(situation: Situation) -> SnapshotPlan:
    """
    Plan what an epoch reads.

    :raises StateError: if the strategy's tables are gone although epochs read them before.
    """
    previous = situation.previous
    if situation.state.completed:
        return SnapshotPlan(previous.upstream.row_count if previous else 0)
    return KINDS.named(situation.settings.strategy).plan(situation)
