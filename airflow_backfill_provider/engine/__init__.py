"""One epoch on Spark, through its SQL and DataFrame API only."""

from airflow_backfill_provider.engine.spark_engine import SparkEngine

__all__ = ["SparkEngine"]
