"""How history is read: the seam of strategies, its kinds, and the choice between them."""

from airflow_backfill_provider.core.kinds import Kinds
from airflow_backfill_provider.strategies.arrangement import Arrangement
from airflow_backfill_provider.strategies.base import Strategy
from airflow_backfill_provider.strategies.no_shuffle import NoShuffle

KINDS: Kinds[Strategy] = Kinds("strategy")
"""All strategies; ``auto`` takes the first that fits."""

KINDS.register(NoShuffle())
KINDS.register(Arrangement())

__all__ = ["KINDS", "Strategy"]
