"""What a backfill costs, estimated before it begins."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class CostEstimate(BaseModel):
    """
    What a whole backfill is expected to take under one strategy.

    :param rows: snapshot rows that are read into the view: of the upstream's, those that the job is about.
    :param bytes: bytes of the files that are looked into, all epochs together; what is made at creation included.
    :param epochs: epochs that read a chunk.
    :param spark_runs: applications: one that creates the job, and those of the epochs.
    :param hours: rough, by the speed that :mod:`airflow_backfill_provider.strategies.evidence` assumes.
    """

    model_config = ConfigDict(frozen=True)

    rows: int
    bytes: int
    epochs: int
    spark_runs: int
    hours: float
