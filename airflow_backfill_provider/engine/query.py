"""Runs a job's query over rows of its upstream."""

from __future__ import annotations

import uuid
from typing import Protocol

from pyspark.sql import DataFrame, SparkSession

from airflow_backfill_provider.engine.spark_errors import query_errors


class Query(Protocol):
    """A query as the engine runs it."""

    @property
    def text(self) -> str:
        """The query as the user wrote it."""
        ...

    @property
    def has_steps(self) -> bool:
        """Whether the query may rename columns in subqueries."""
        ...

    def over(self, relation: str) -> str:
        """Return the SQL of the view's rows, over a relation with the used columns."""
        ...


def run_query(spark: SparkSession, query: Query, rows: DataFrame) -> DataFrame:
    """
    Return the view's rows, hidden columns included, over rows with the used columns alone.

    :raises InvalidJobError: if Spark cannot analyse the query.
    """
    with query_errors():
        result = spark.sql(over_rows(query), rows=rows)
        result.schema  # noqa: B018 - analyses the query now, also through Spark Connect
    return result


def over_rows(query: Query) -> str:
    """Return the SQL of a query over the ``rows`` argument of :meth:`SparkSession.sql`."""
    relation = f"backfill_upstream_{uuid.uuid4().hex}"
    # Spark replaces the name in braces with the rows; a temporary view would need two more calls to a server.
    return query.over(relation).replace("{", "{{").replace("}", "}}").replace(relation, "{rows}")
