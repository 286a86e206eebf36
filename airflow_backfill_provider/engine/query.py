"""Running a job's query over some rows of its upstream."""

from __future__ import annotations

import uuid
from collections.abc import Collection

from pyspark.sql import DataFrame, SparkSession

from airflow_backfill_provider.core.job import BackfillJob
from airflow_backfill_provider.core.query import check_query
from airflow_backfill_provider.engine.spark_errors import query_errors


def run_query(spark: SparkSession, job: BackfillJob, rows: DataFrame, upstream_names: Collection[str]) -> DataFrame:
    """
    Return the query's result, hidden key columns included, over rows with the used columns alone.

    :param upstream_names: names that a star may stand for, as of the job's creation.
    :raises InvalidJobError: if Spark cannot analyse the query.
    """
    with query_errors():
        result = spark.sql(query_over_rows(job, upstream_names), rows=rows)
        result.schema  # noqa: B018 - analyses the query now, also through Spark Connect
    return result


def query_over_rows(job: BackfillJob, upstream_names: Collection[str]) -> str:
    """
    Return the text of a job's query, hidden key columns included, over what :meth:`SparkSession.sql` calls rows.

    :param upstream_names: as in :func:`run_query`.
    """
    relation = f"backfill_upstream_{uuid.uuid4().hex}"
    text = check_query(job.query).render(relation, [key.column for key in job.upstream.key], upstream_names)
    # Spark puts the rows where their name stands in braces; a temporary view would be two more calls of a server.
    return text.replace("{", "{{").replace("}", "}}").replace(relation, "{rows}")
