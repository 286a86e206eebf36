"""The units that a repair replaces: those that it names, and all units of the vnodes that it names."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.shapes.base import WriterContext
from airflow_backfill_provider.shapes.group.query import GroupQuery
from airflow_backfill_provider.shapes.group.slices import Slices
from airflow_backfill_provider.shapes.group.unit_types import unit_order
from airflow_backfill_provider.sources.shared.by_key import column, decoded_keys


def units_to_repair(context: WriterContext, slices: Slices, query: GroupQuery, barrier: Barrier) -> DataFrame:
    """
    Return the units that a repair replaces, each once.

    A repair of a vnode replaces every unit in it that the rows give, and every one that the view has.
    """
    if query.is_global:
        return slices.units_of(context.job_rows.empty())
    schema = context.run(context.job_rows.empty()).schema
    outputs = slices.outputs_in(schema)
    chosen = decoded_keys(context.spark, unit_order(schema, outputs), barrier.repair.units).toDF(*slices.names)
    if barrier.repair.vnodes:
        held = context.view.table.read().select(*map(column, outputs)).toDF(*slices.names)
        all_units = slices.units_of(context.read_set(barrier, with_chunk=False)).unionAll(held)
        vnode = F.pmod(F.hash(*(F.col(name) for name in slices.names)), F.lit(context.job.vnode_count))
        chosen = chosen.unionAll(all_units.filter(vnode.isin(list(barrier.repair.vnodes))))
    return chosen.distinct()
