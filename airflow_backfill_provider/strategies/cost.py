"""What a backfill costs, estimated before it begins."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class CostEstimate(BaseModel):
    """
    The estimated cost of a whole backfill with one strategy.

    :param rows: snapshot rows that are read into the view: the job's rows of the upstream.
    :param bytes: bytes of the files that all epochs open, and of the tables that are made at creation.
    :param epochs: epochs that read a chunk.
    :param spark_runs: Spark applications: one that creates the job, and those of the epochs.
    :param hours: a rough duration, by the speed that :mod:`airflow_backfill_provider.strategies.evidence` assumes.
    """

    model_config = ConfigDict(frozen=True)

    rows: int
    bytes: int
    epochs: int
    spark_runs: int
    hours: float
