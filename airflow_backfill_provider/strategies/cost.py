"""The cost of a backfill, estimated before it begins."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class CostEstimate(BaseModel):
    """
    The estimated cost of a whole backfill with one strategy.

    :param rows: the job's rows of the upstream, which are read into the view.
    :param bytes: bytes of the files that all epochs open, and of the tables that creating the job writes.
    :param epochs: the number of epochs that read a chunk.
    :param spark_runs: the number of Spark applications: one that creates the job, and those of the epochs.
    :param hours: a rough duration, at the speed that :mod:`airflow_backfill_provider.strategies.inputs` assumes.
    """

    model_config = ConfigDict(frozen=True)

    rows: int
    bytes: int
    epochs: int
    spark_runs: int
    hours: float
