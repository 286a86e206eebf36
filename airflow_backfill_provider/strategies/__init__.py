"""The seam of strategies: how history is read, the registered kinds, and the choice between them."""

from typing import cast

from airflow_backfill_provider.core import kinds
from airflow_backfill_provider.strategies.arrangement import Arrangement
from airflow_backfill_provider.strategies.base import Strategy
from airflow_backfill_provider.strategies.cdc import Cdc
from airflow_backfill_provider.strategies.no_shuffle import NoShuffle
from airflow_backfill_provider.strategies.snapshot import Snapshot
from airflow_backfill_provider.strategies.source import SourceBackfill

KINDS = cast("kinds.Kinds[Strategy]", kinds.STRATEGIES)
"""All strategies; ``auto`` takes the first that fits."""

KINDS.register(Snapshot())
KINDS.register(NoShuffle())
KINDS.register(Arrangement())
KINDS.register(Cdc())
KINDS.register(SourceBackfill())

__all__ = ["KINDS", "Strategy"]
