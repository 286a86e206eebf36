"""The units that a repair replaces: those that it names, and all units of the vnodes that it names."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.shapes.group.grouped_rows import GroupInput
from airflow_backfill_provider.shapes.group.slices import Slices
from airflow_backfill_provider.shapes.group.unit_types import unit_order
from airflow_backfill_provider.sources.shared.by_key import column, decoded_keys


def units_to_repair(rows: GroupInput, slices: Slices, barrier: Barrier) -> DataFrame:
    """
    Return the units that a repair replaces, each once.

    A repair of a vnode replaces every unit in it that the rows give, and every one that the view has.
    """
    context, none = rows.context, rows.empty()
    if rows.query.is_global:
        return none.units()
    schema = none.groups().schema
    outputs = slices.outputs_in(schema)
    chosen = decoded_keys(context.spark, unit_order(schema, outputs), barrier.repair.units).toDF(*rows.names)
    if barrier.repair.vnodes:
        held = context.view.table.read().select(*map(column, outputs)).toDF(*rows.names)
        all_units = rows.read_set(barrier).units().unionAll(held)
        vnode = F.pmod(F.hash(*(F.col(name) for name in rows.names)), F.lit(context.job.vnode_count))
        chosen = chosen.unionAll(all_units.filter(vnode.isin(list(barrier.repair.vnodes))))
    return chosen.distinct()
