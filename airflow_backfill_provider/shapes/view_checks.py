"""What every writer refuses on Spark before a job is created; a shape's own checks come in between."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from airflow_backfill_provider.sources.shared.by_key import column
from airflow_backfill_provider.spark.lasting_values import require_lasting_values
from airflow_backfill_provider.spark.mergeable_columns import require_mergeable
from airflow_backfill_provider.spark.view_columns import require_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from airflow_backfill_provider.shapes.base import WriterContext


def require_possible_columns(
    context: WriterContext, schema: StructType, table_properties: Mapping[str, str], named: Iterable[str]
) -> None:
    """
    Refuse columns that no Delta table can have, or into which Delta cannot merge changes.

    :param schema: the view's columns.
    :param table_properties: the table properties in the job's definition.
    :param named: names in the query's text, and of columns that the view has beside it; those of the upstreams' columns
        are known.
    :raises InvalidJobError: with the column.
    """
    written = {name.lower() for name in (*named, *context.query.upstream_names)}
    require_columns(schema, table_properties, written)
    require_mergeable(context.spark, schema, table_properties)


def require_lasting(context: WriterContext, rows: DataFrame) -> None:
    """
    Refuse a query whose values depend on the day, or on a variable of the session.

    :param rows: rows of the upstream, or of the one that leads.
    :raises InvalidJobError: with the expression, and what to write instead.
    """
    used = rows.select(*map(column, context.job_rows.columns))
    require_lasting_values(context.spark, context.query, used, context.beside_without_rows())
