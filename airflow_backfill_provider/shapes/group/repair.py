"""The units that a repair replaces: those that it names, and all units of the vnodes that it names."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import StringType, StructField, StructType

from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.scan.keys import KeyKind
from airflow_backfill_provider.shapes.base import WriterContext
from airflow_backfill_provider.shapes.group.query import GroupQuery
from airflow_backfill_provider.shapes.group.slices import Slices
from airflow_backfill_provider.shapes.group.unit_types import unit_order
from airflow_backfill_provider.sources.shared.by_key import column


def units_to_repair(context: WriterContext, slices: Slices, query: GroupQuery, barrier: Barrier) -> DataFrame:
    """
    Return the units that a repair replaces, each once.

    A repair of a vnode replaces every unit in it that the rows give, and every one that the view has.
    """
    if query.is_global:
        return slices.units_of(context.job_rows.empty())
    schema = context.run(context.job_rows.empty()).schema
    outputs = slices.outputs_in(schema)
    order = unit_order(schema, outputs)
    texts = StructType([StructField(f"text_{i}", StringType()) for i in range(len(outputs))])
    named = context.spark.createDataFrame([tuple(unit) for unit in barrier.repair.units], texts)
    values = []
    for i, (field, name) in enumerate(zip(order.fields, slices.names, strict=True)):
        text = F.col(f"text_{i}")
        values.append((F.unhex(text) if field.kind is KeyKind.BINARY else text.cast(field.type)).alias(name))
    chosen = named.select(*values)
    if barrier.repair.vnodes:
        held = context.view.table.read().select(*map(column, outputs)).toDF(*slices.names)
        all_units = slices.units_of(context.read_set(barrier, with_chunk=False)).unionAll(held)
        vnode = F.pmod(F.hash(*(F.col(name) for name in slices.names)), F.lit(context.job.vnode_count))
        chosen = chosen.unionAll(all_units.filter(vnode.isin(list(barrier.repair.vnodes))))
    return chosen.distinct()
