"""
SQL over relations that are data frames, such that statistics hide no row, and rows that are kept stay kept.

The conditions of SQL, such as those of a job's query, skip no files and no kept rows. Statistics may be wrong. Spark
itself finds no ``0.0`` in a file that has only ``-0.0``, and no NaN above a number among rows that it keeps.

A name for a relation is a temporary view for the time of one call. When Spark drops such a view, it forgets what it
kept of the view's plan, and reads the rows again from then on. So the view is of another plan that gives the same rows.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession

from airflow_backfill_provider.spark.predicates import without_pushdown


def sql_over(spark: SparkSession, text: str, relations: Mapping[str, DataFrame]) -> DataFrame:
    """
    Return the result of SQL over relations; it is analysed now, also through Spark Connect.

    :param text: the SQL. It may have braces, which mean nothing.
    :param relations: what stands for a relation in the text, such as a quoted name that nothing else has → its rows.
    """
    # PySpark puts the name of a relation in place of braces.
    text = text.replace("{", "{{").replace("}", "}}")
    arguments = {f"relation_{number}": without_pushdown(rows) for number, rows in enumerate(relations.values())}
    for name, argument in zip(relations, arguments, strict=True):
        text = text.replace(name, f"{{{argument}}}")
    result = spark.sql(text, None, **arguments)
    result.schema  # noqa: B018 - analyses the query
    return result
