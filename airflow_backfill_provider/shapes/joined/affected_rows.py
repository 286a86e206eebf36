"""
Finds the rows of a lead that a window's changes affect, on Spark: it follows the hops of an :class:`AffectedPlan`.

Values are compared as the query compares them, by Spark's own equality. Values that look alike in another form, such as
0.0 and -0.0, or a number and its text, are equal there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from airflow_backfill_provider.core.scan.columns import own_columns
from airflow_backfill_provider.lake.log.schemas import TableSchema
from airflow_backfill_provider.shapes.joined.affected import AffectedPlan, AffectedStep, Hop
from airflow_backfill_provider.shapes.joined.tree import Pair
from airflow_backfill_provider.sources.shared.balanced import all_of, any_of
from airflow_backfill_provider.sources.shared.by_key import column
from airflow_backfill_provider.sources.shared.kept_rows import KEPT
from airflow_backfill_provider.spark.small_changes import broadcast_if_few, bytes_of


@contextmanager
def leads_of_changes(
    plan: AffectedPlan, images: Mapping[str, DataFrame], rows: Mapping[str, DataFrame], leads: DataFrame
) -> Iterator[DataFrame | None]:
    """
    Find the rows of a lead that changes of other roles affect, and keep the values that lead to them for the block.

    :param images: all images of the changed rows of the upstreams that are read whole, by their names: the old and the
        new ones of each change. They must not be netted by key.
    :param rows: all rows of these upstreams as of the window's end.
    :param leads: the rows of the lead to look among, as of the window's end.
    :returns: those of them that are affected, each once; ``None`` if no other role has changes.
    """
    with ExitStack() as kept:
        values: dict[str, DataFrame] = {}
        steps = plan.after(frozenset(images)).steps
        for step in steps[:-1]:
            found = [images[step.relation]] if step.relation in images else []
            if step.hops:
                found.append(_met(rows[step.relation], step, values))
            values[step.role] = _kept(_values(step, found), kept)
        yield _met(leads, steps[-1], values) if steps[-1].hops else None


def _values(step: AffectedStep, found: list[DataFrame]) -> DataFrame:
    gives = [rows.select(*map(column, step.gives)) for rows in found]
    every = gives[0] if len(gives) == 1 else gives[0].unionAll(gives[1])
    return every.distinct()


def _kept(values: DataFrame, kept: ExitStack) -> DataFrame:
    """Keep values, and let Spark know if they are few: it would sort all rows to look for them otherwise."""
    values = values.persist(KEPT)
    kept.callback(values.unpersist)
    total = values.agg(
        F.count(F.lit(1)).alias("rows"), F.sum(bytes_of(TableSchema.of(values.schema.json()).types)).alias("bytes")
    ).collect()[0]
    return broadcast_if_few(values, total["rows"], total["bytes"] or 0)


def _met(rows: DataFrame, step: AffectedStep, values: Mapping[str, DataFrame]) -> DataFrame:
    """Return the rows that any hop leads to; several hops share one pass over them."""
    return rows.filter(any_of([_is_met(rows, hop, values[hop.child]) for hop in step.hops]))


def _is_met(rows: DataFrame, hop: Hop, values: DataFrame) -> Column:
    """Return the condition that a row has one of the values of a child."""
    names = own_columns(rows.columns).numbered("value", len(values.columns))
    renamed = dict(zip(values.columns, names, strict=True))
    return values.toDF(*names).where(all_of([_is_equal(pair, renamed[pair.column]) for pair in hop.pairs])).exists()


def _is_equal(pair: Pair, value: str) -> Column:
    own = column(pair.parent).outer()
    return own.eqNullSafe(F.col(value)) if pair.null_safe else own == F.col(value)
