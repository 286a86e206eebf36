"""Where rows lie by their units, if a unit depends on several upstreams, and which changes take them elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from airflow_backfill_provider.core.epoch.barrier import PinnedRange, decoded
from airflow_backfill_provider.core.scan.keys import EVERYTHING
from airflow_backfill_provider.sources.shared.by_key import column
from airflow_backfill_provider.spark.job_rows import JobRows
from airflow_backfill_provider.spark.net_changes import ROWS_ADDED

_ITSELF, _ROW = "changed_itself", "row"


@dataclass(frozen=True, slots=True, kw_only=True)
class AffectedRows:
    """
    The rows of an upstream that a window affects, with the used columns.

    :param old: those that changed themselves, as of the window's begin.
    :param new: those, as of its end.
    :param unchanged: those that only changes of other upstreams affect; ``None`` if there are none.
    """

    old: DataFrame
    new: DataFrame
    unchanged: DataFrame | None


def net_by_unit(
    placed: JobRows, affected: AffectedRows, begin: Mapping[str, DataFrame], end: Mapping[str, DataFrame]
) -> DataFrame:
    """
    Return the net changes of rows per vnode, unit and key.

    A row leaves each unit that it had a part in before and has none in now. A row that did not change itself and stays
    in its unit is the same there, so it has no change.

    :param placed: the rows by their units.
    :param begin: all rows of the other upstreams as of the window's begin, by their names.
    :param end: the same as of its end.
    :returns: what :func:`~airflow_backfill_provider.spark.net_changes.net_changes` returns, without its flags of keys.
    """
    own = placed.own
    before = _side(placed, [(affected.old, True), (affected.unchanged, False)], begin, is_upsert=False)
    after = _side(placed, [(affected.new, True), (affected.unchanged, False)], end, is_upsert=True)
    upsert, row = F.col(own.is_upsert), own.named(_ROW)
    net = (
        before.unionByName(after)
        .groupBy(*map(column, placed.identity.names))
        .agg(
            # A removed row keeps what it was: only its key and its unit count.
            F.max_by(F.struct(*map(column, _beside_identity(placed))), upsert).alias(row),
            F.max(upsert).alias(own.is_upsert),
            F.min(upsert).alias(own.appeared),
            F.some(own.named(_ITSELF)).alias(own.named(_ITSELF)),
            F.sum(F.when(upsert, 1).otherwise(-1)).alias(own.named(ROWS_ADDED)),
        )
    )
    moved: Column = F.col(own.appeared) | ~upsert
    values = [F.col(row).getField(name).alias(name) for name in _beside_identity(placed)]
    return net.filter(moved | F.col(own.named(_ITSELF))).select(
        *map(column, placed.identity.names), *values, own.is_upsert, own.appeared, own.named(ROWS_ADDED)
    )


def of_units(placed: JobRows, rows: DataFrame, names: Sequence[str], ranges: Iterable[PinnedRange]) -> DataFrame:
    """
    Return the rows whose units lie in some ranges.

    :param placed: says where units lie.
    :param rows: rows with units, and any other columns.
    :param names: the names of the columns with the units.
    """
    units = zip(placed.scan.fields[1:], names, strict=True)
    cast = rows.withColumns({unit.name: column(name).cast(unit.type) for unit, name in units})
    return placed.with_vnodes(cast).filter(placed.is_read(ranges)).select(*map(column, rows.columns))


def are_all(placed: JobRows, ranges: Iterable[PinnedRange]) -> bool:
    """Return whether some ranges have all units."""
    return EVERYTHING in decoded(ranges, placed.scan)


def _side(
    placed: JobRows,
    parts: Sequence[tuple[DataFrame | None, bool]],
    others: Mapping[str, DataFrame],
    *,
    is_upsert: bool,
) -> DataFrame:
    """Return rows in their units, each with whether it changed itself."""
    own = placed.own
    rows = [
        found.select(*map(column, placed.columns), F.lit(is_itself).alias(own.named(_ITSELF)))
        for found, is_itself in parts
        if found is not None
    ]
    return placed.in_units(reduce(DataFrame.unionByName, rows), others).withColumn(own.is_upsert, F.lit(is_upsert))


def _beside_identity(placed: JobRows) -> list[str]:
    """Return the used columns beside the key; a row has one key in all of its units."""
    return [name for name in placed.columns if name not in placed.identity.names]
