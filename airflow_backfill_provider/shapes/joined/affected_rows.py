"""
Finds the rows of a lead that a window's changes affect, on Spark: it follows the hops of an :class:`AffectedPlan`.

Values are compared as the query compares them, by Spark's own equality. Values that look alike in another form, such as
0.0 and -0.0, or a number and its text, are equal there.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import StructType

from airflow_backfill_provider.core.scan.columns import own_columns
from airflow_backfill_provider.lake.log.schemas import TableSchema
from airflow_backfill_provider.shapes.joined.affected import AffectedPlan, AffectedStep, Hop
from airflow_backfill_provider.shapes.joined.tree import Pair
from airflow_backfill_provider.sources.shared.balanced import all_of, any_of
from airflow_backfill_provider.sources.shared.by_key import column
from airflow_backfill_provider.spark.kept_changes import kept_rows
from airflow_backfill_provider.spark.predicates import without_pushdown
from airflow_backfill_provider.spark.small_changes import broadcast_if_few, bytes_of

_INTEGERS = frozenset({"tinyint", "smallint", "int", "bigint"})
_FRACTIONS = ("decimal", "float", "double")


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
    values = kept_rows(values, kept)
    total = values.agg(
        F.count(F.lit(1)).alias("rows"), F.sum(bytes_of(TableSchema.of(values.schema.json()).types)).alias("bytes")
    ).collect()[0]
    return broadcast_if_few(values, total["rows"], total["bytes"] or 0)


def _met(rows: DataFrame, step: AffectedStep, values: Mapping[str, DataFrame]) -> DataFrame:
    """Return the rows that any hop leads to; several hops share one pass over them."""
    # Spark looks for a name of the outer rows inside of the subquery first, also among columns that it has dropped.
    outer = {pair.parent: f"backfill_{uuid.uuid4().hex}" for hop in step.hops for pair in hop.pairs}
    # A file is not skipped by the values that are looked for: its statistics may be wrong.
    named = without_pushdown(rows).select("*", *(column(name).alias(unique) for name, unique in outer.items()))
    is_met = any_of([_is_met(named.schema, outer, hop, values[hop.child]) for hop in step.hops])
    return named.filter(is_met).select(*map(column, rows.columns))


def _is_met(schema: StructType, outer: Mapping[str, str], hop: Hop, values: DataFrame) -> Column:
    """
    Return the condition that a row has one of the values of a child.

    :param schema: the row's columns.
    :param outer: the unique names of those to compare, by their own names.
    """
    names = own_columns(outer.values()).numbered("value", len(values.columns))
    renamed, named = dict(zip(values.columns, names, strict=True)), values.toDF(*names)

    def is_equal(pair: Pair) -> Column:
        own, value = outer[pair.parent], renamed[pair.column]
        own_type, type_ = (
            fields[name].dataType.simpleString() for fields, name in ((schema, own), (named.schema, value))
        )
        left, right = _comparable(F.col(own).outer(), own_type, type_), _comparable(F.col(value), type_, own_type)
        return left.eqNullSafe(right) if pair.null_safe else left == right

    return named.where(all_of([is_equal(pair) for pair in hop.pairs])).exists()


def _comparable(value: Column, kind: str, other: str) -> Column:
    """
    Return a value as Spark compares it with one of another type; null for a text that is no such value.

    A step of the query may leave such texts out, but here they are all looked at.
    """
    if not kind.startswith("string") or other.startswith("string"):
        return value
    return value.try_cast("bigint" if other in _INTEGERS else "double" if other.startswith(_FRACTIONS) else other)
