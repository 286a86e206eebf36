"""
Compares a table that something else made with the query of the job whose view it shall become.

The table has no hidden columns of the package. Those that keep the state of groups are filled later; those that say
which row is which cannot be, so a query that needs them is refused.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from airflow_backfill_provider.core.epoch.settings import JobSettings
from airflow_backfill_provider.core.errors import MaterializedViewError
from airflow_backfill_provider.core.scan.keys import KeyField, KeyOrder
from airflow_backfill_provider.core.status.verification import ComparedVnodes, PinnedVerification
from airflow_backfill_provider.engine.compared_sides import ComparedSides
from airflow_backfill_provider.engine.comparison import compare
from airflow_backfill_provider.engine.tables import TableOpener
from airflow_backfill_provider.lake.log.schemas import TableSchema
from airflow_backfill_provider.spark.counted_keys import counted_keys
from airflow_backfill_provider.spark.job_rows import JobRows
from airflow_backfill_provider.spark.key_numbers import count_if_single
from airflow_backfill_provider.spark.table_rows import stored_keys_at

_OF_PACKAGE = "__"
"""How the names of hidden columns begin."""


def compare_adopted(
    spark: SparkSession, tables: TableOpener, settings: JobSettings, pinned: PinnedVerification
) -> Sequence[ComparedVnodes]:
    """
    Compare a table with the query as of the pinned offsets.

    :param settings: the settings that the job would be created with.
    :raises MaterializedViewError: if it has other columns than the query, or several rows with one key.
    :raises VerificationFailedError: if a table cannot be read.
    """
    shown = settings.model_copy(
        update={"view_columns": tuple(column for column in settings.view_columns if column.of_rows is None)}
    )
    job, first_rows = settings.definition, settings.first_rows
    location = job.view_location if first_rows is None else first_rows.location
    upstream = tables.upstream(job).as_created(settings.upstream)
    reader = tables.reader(job, upstream)
    table = tables.table_rows(location, pinned.view_version)
    writer = tables.writer(job, settings.shape, settings.upstream, JobRows.of(job, reader, settings.upstream))
    _require_columns(writer.schema(), table.schema, location)
    sides = ComparedSides(
        spark=spark,
        settings=shown,
        pinned=pinned,
        location=location,
        table=lambda: table,
        older=(),
        upstream=upstream,
        reader=reader,
        others={name: other.rows.reader for name, other in tables.others(job, settings.upstream).items()},
        further={name: lead.rows for name, lead in tables.leads(job, settings.upstream).items()},
    )
    compared = [compare(sides, vnodes) for vnodes in pinned.steps]
    # Vnodes have about as many rows each.
    found, vnodes = sum(step.found_rows for step in compared), sum(step.last - step.first + 1 for step in compared)
    _require_distinct(sides, table, expected=found * job.vnode_count // vnodes)
    return compared


def _require_columns(expected: StructType, found: StructType, location: str) -> None:
    """Refuse a table that does not have exactly the query's columns, in any order."""
    wanted = {field.name: field.dataType.simpleString() for field in expected.fields}
    actual = {field.name: field.dataType.simpleString() for field in found.fields}
    missing = [name for name in wanted if name not in actual]
    if hidden := [name for name in missing if name.startswith(_OF_PACKAGE)]:
        raise MaterializedViewError(
            f"backfill_from: the query does not select all columns by which epochs find rows of the view, so the view "
            f"needs {', '.join(hidden)}, which {location} does not have; select them in the query, and adopt a table "
            "that has them"
        )
    if missing:
        raise MaterializedViewError(
            f"backfill_from: {location} lacks {', '.join(missing)}, which the query gives; leave them out of the query"
        )
    if added := [name for name in actual if name not in wanted]:
        raise MaterializedViewError(
            f"backfill_from: {location} has {', '.join(added)}, which the query does not give; add them to it, or "
            "drop them from the table"
        )
    if other := [name for name in wanted if wanted[name] != actual[name]]:
        types = ", ".join(f"{name} is {actual[name]} and would be {wanted[name]}" for name in other)
        raise MaterializedViewError(
            f"backfill_from: the types of {location} differ from the query's: {types}; cast them in the query"
        )


def _require_distinct(sides: ComparedSides, table: DataFrame, *, expected: int) -> None:
    """Refuse a table in which several rows have one key of the view."""
    if not sides.key:
        return
    types = TableSchema.of(table.schema.json()).types
    key = KeyOrder(tuple(KeyField(name=name, type=types[name]) for name in sides.key))
    stored = stored_keys_at(sides.spark, sides.location, sides.pinned.view_version, key)
    if stored is not None and count_if_single(stored) is not None:
        return
    if counted_keys(table, sides.key, expected=expected).repeats:
        raise MaterializedViewError(
            f"backfill_from: {sides.location} has several rows with the same {', '.join(sides.key)}, which is the "
            "view's key; remove the repeated rows, or correct upstream.key"
        )
