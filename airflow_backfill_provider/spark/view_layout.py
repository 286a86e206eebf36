"""The layout of a view's table, as Spark makes and checks it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql.types import StructType

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.core.job.layout import (
    ViewLayout,
    column_named,
    require_clustering,
    require_partitions,
)
from airflow_backfill_provider.core.job.sql import quote, text_literal
from airflow_backfill_provider.lake.log.schemas import TableSchema
from airflow_backfill_provider.lake.tables.view_table import view_table

PLAIN = ViewLayout()
"""No layout of a job's own."""

ANY_PROPERTY = {"spark.databricks.delta.allowArbitraryProperties.enabled": "true"}
"""This version of Delta does not know all properties of a layout, though other writers do."""


def table_clauses(layout: ViewLayout, columns: Sequence[str], properties: Mapping[str, str]) -> str:
    """
    Return what stands in the creation of a view's table between its name and its rows.

    :param columns: the table's columns.
    :param properties: its properties, without those of the layout.
    """
    given = f"TBLPROPERTIES ({assignments({**properties, **layout.layout_properties})})"
    for clause, field, names in (
        ("PARTITIONED BY", "partition_by", layout.partition_by),
        ("CLUSTER BY", "cluster_by", layout.cluster_by),
    ):
        if names:
            listed = ", ".join(quote(column_named(name, columns, field)) for name in names)
            return f"USING delta {clause} ({listed}) {given}"
    return f"USING delta {given}"


def assignments(properties: Mapping[str, str]) -> str:
    """Return table properties as SQL."""
    return ", ".join(f"{text_literal(name)} = {text_literal(value)}" for name, value in properties.items())


def require_layout(
    job: BackfillJob, schema: StructType, storage_options: Mapping[str, str] | None = None, *, exists: bool
) -> None:
    """
    Refuse a layout that the view's table cannot have.

    :param schema: the view's columns.
    :param exists: whether the view's path has a table of the job, which a rebuild replaces.
    :raises InvalidJobError: with the field and the column.
    """
    if not (job.partition_by or job.cluster_by):
        return
    types = TableSchema.of(schema.json()).types
    require_partitions(job.partition_by, types)
    require_clustering(job.cluster_by, types, job.table_properties)
    if job.partition_by and exists and _was_clustered(job.view_location, storage_options):
        raise InvalidJobError(
            f"partition_by: the table at {job.view_location} is or was clustered, and Delta puts no table with "
            "partitions in its place; create another job with another materialized_view"
        )


def _was_clustered(location: str, storage_options: Mapping[str, str] | None) -> bool:
    table = view_table(location, storage_options)
    return table is not None and table.is_clustered
