"""
One step of a verification: compares the vnodes of a range, and lists the keys of those that differ.

Both sides are read and hashed. Counting rows is not enough, because Delta may answer a count from its log without
reading files. A table that cannot be read is an error; it counts neither as equal nor as different.

Checksums are exact. A vnode whose checksums differ is equal all the same if its rows differ only in the last digits of
floating-point aggregates.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Sequence

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import StructType

from airflow_backfill_provider.core.scan.scan import VnodeRange
from airflow_backfill_provider.core.status.differences import (
    DifferenceKind,
    DifferingKey,
    VnodeChecksum,
    VnodeDifference,
    differing_vnodes,
)
from airflow_backfill_provider.core.status.verification import MOST_KEYS_KEPT, ComparedVnodes
from airflow_backfill_provider.engine.compared_sides import HASHES, ROW, UNIT, ComparedSides
from airflow_backfill_provider.engine.differing_keys import COLUMNS, KIND, differing_keys, encoded
from airflow_backfill_provider.jobs.lost_rows import require_computed_again
from airflow_backfill_provider.sources.shared.kept_rows import KEPT
from airflow_backfill_provider.spark.row_hash import halves, sum_of
from airflow_backfill_provider.spark.spark_errors import comparison_errors

_HALVES = ("upper", "lower")


def compare(sides: ComparedSides, vnodes: VnodeRange) -> ComparedVnodes:
    """
    Compare both sides of some vnodes.

    :raises VersionGoneError: if a version can no longer be read.
    :raises VerificationFailedError: if a table cannot be read.
    :raises MaterializedViewError: if the view has other columns.
    :raises ChangeFeedGapError: if rows are gone that the view's groups count.
    """
    started = time.monotonic()
    job, pinned = sides.settings.definition, sides.pinned
    with comparison_errors(f"the upstream {job.upstream.location} at version {pinned.upstream_version}"):
        expected = sides.expected(vnodes)
        schema = _columns_of(expected)
        wanted = _checksums(expected)
    with comparison_errors(f"the view {job.materialized_view} at version {pinned.view_version}"):
        sides.require_sound_histories(vnodes)
        found = sides.found(vnodes, schema)
        actual = _checksums(sides.comparable(vnodes, schema))
        rows = sum(checksum.rows for checksum in actual.values())
        removed = found.count() - rows if sides.loses_rows else 0
    # Again, because rows may have been removed while they were read, and then none of the sides is the right one.
    require_computed_again(sides.settings, sides.upstream, pinned.upstream_version)
    differing = differing_vnodes(wanted, actual)
    differences: tuple[VnodeDifference, ...] = ()
    keys: tuple[DifferingKey, ...] = ()
    if differing:
        with comparison_errors(f"the view {job.materialized_view} or the upstream {job.upstream.location}"):
            differences, keys = _details(sides, schema, expected, found, differing)
    return ComparedVnodes(
        first=vnodes[0],
        last=vnodes[1],
        expected_rows=sum(checksum.rows for checksum in wanted.values()),
        found_rows=rows,
        removed_rows=removed,
        differences=differences,
        keys=keys,
        has_all_keys=len(keys) == sum(difference.keys for difference in differences),
        seconds=time.monotonic() - started,
        compared_at=dt.datetime.now(dt.UTC),
    )


def _columns_of(rows: DataFrame) -> StructType:
    """Return the view's columns from rows with hashes."""
    columns = rows.schema[ROW].dataType
    if not isinstance(columns, StructType):
        raise TypeError(f"the column {ROW} has the type {columns}, not a struct")
    return columns


def _checksums(rows: DataFrame) -> dict[int, VnodeChecksum]:
    grouped = rows.groupBy(UNIT).agg(
        F.count(F.lit(1)).alias("rows"),
        *(
            F.sum(half).alias(f"{part}{name}")
            for name in HASHES
            for part, half in zip(_HALVES, halves(F.col(name)), strict=True)
        ),
    )
    return {
        row[UNIT]: VnodeChecksum(
            rows=row["rows"],
            sums=(_sum(row, HASHES[0]), _sum(row, HASHES[1])),
        )
        for row in grouped.collect()
    }


def _sum(row: Row, name: str) -> int:
    upper, lower = (row[f"{part}{name}"] for part in _HALVES)
    return sum_of(upper, lower)


def _details(
    sides: ComparedSides, schema: StructType, expected: DataFrame, found: DataFrame, differing: Sequence[int]
) -> tuple[tuple[VnodeDifference, ...], tuple[DifferingKey, ...]]:
    """Return the number of differing keys in each of some vnodes, and the first of them."""
    of_vnodes = F.col(UNIT).isin(list(differing))
    keys = differing_keys(
        expected.filter(of_vnodes),
        found.filter(of_vnodes),
        schema,
        key=sides.key,
        order=sides.units.order,
        inexact=sides.inexact(schema),
    ).persist(KEPT)
    try:
        comparable = _comparable(sides, keys) if sides.loses_rows else keys
        counted = comparable.groupBy(UNIT, KIND).agg(F.count(F.lit(1)).alias("keys")).collect()
        counts: dict[int, dict[str, int]] = {vnode: {} for vnode in differing}
        for row in counted:
            counts.setdefault(row[UNIT], {})[row[KIND]] = row["keys"]
        outputs = [F.col(f"__key_{number}") for number in range(len(sides.key))]
        first = comparable.orderBy(UNIT, *outputs).limit(MOST_KEYS_KEPT).collect()
    finally:
        keys.unpersist()
    order = sides.units.order
    # Hidden state is compared, but who reads of a difference knows only the columns of the query.
    hidden = sides.settings.state_columns
    return (
        tuple(
            VnodeDifference(vnode=vnode, **kinds)
            for vnode, kinds in sorted(counts.items())
            # Without a key that differs, such a vnode is equal after all.
            if kinds or not (sides.loses_rows or sides.inexact(schema))
        ),
        tuple(
            DifferingKey(
                kind=DifferenceKind(row[KIND]),
                vnode=row[UNIT],
                key=key,
                columns=tuple(name for name in row[COLUMNS] or () if name not in hidden),
            )
            for row in first
            if (key := encoded([row[f"__text_{number}"] for number in range(len(order.fields))], order)) is not None
        ),
    )


def _comparable(sides: ComparedSides, keys: DataFrame) -> DataFrame:
    """
    Return differing keys without those of rows that the upstream has removed.

    The two sides are read one after the other, and rows may be removed in between. So only what the upstream still has
    after both were read is a row that the query does not give.

    :param keys: persisted.
    """
    keys.count()
    unexpected = F.col(KIND) == str(DifferenceKind.UNEXPECTED)
    left = sides.without_removed(keys.filter(unexpected), [f"__key_{number}" for number in range(len(sides.key))])
    return keys.filter(~unexpected).unionAll(left)
