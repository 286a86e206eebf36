"""
The two sides of an epoch: the snapshot chunk, and the net changes.

Ports the executors' snapshot stream and their buffered upstream chunks with ``mark_chunk``. A Delta change data feed
gives the changes of whole commits instead of a stream, so they are netted per key before they are applied.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from airflow_backfill_provider.core.barrier import PinnedRange, PinnedRead, decoded
from airflow_backfill_provider.core.columns import OwnColumns, names_within, own_columns
from airflow_backfill_provider.core.errors import DuplicateKeyError
from airflow_backfill_provider.core.keys import EVERYTHING, KeyOrder, KeyRange
from airflow_backfill_provider.core.query import quote
from airflow_backfill_provider.engine.created_types import as_created
from airflow_backfill_provider.engine.predicates import unskipped, value_of, within

HASHES_IN_MEMORY = 10_000_000
"""Rows whose keys' hashes, of eight bytes each, a driver takes into its memory."""

_UPSERTS = ("insert", "update_postimage")

_CHANGE_TYPE, _COMMIT_VERSION = "change_type", "commit_version"
_FIRST_VERSION, _IMAGE = "first_version", "image"

KEY_APPEARED = "key_appeared"
"""Of a net change per vnode and key: whether no vnode had a row of the key before."""

HAS_DOUBLE = "has_double"
"""Of a net change: whether the upstream had several rows of the key at some time."""

ROWS_ADDED = "rows_added"
"""Of a net change: how many rows it adds; negative if it removes some."""


@dataclass(frozen=True, slots=True)
class MeasuredChanges:
    """
    How many net changes there are.

    :param through: those that are let through to the view.
    :param held_back: the others.
    :param rows_added: rows that those let through add to what was read before; negative if they remove more.
    :param some_appeared: whether one of all these may be of a row that did not exist before.
    :param some_doubtful: whether the upstream had several rows of one of the keys at some time.
    :param has_nulls: for each key column, whether it is null in one of them.
    """

    through: int
    held_back: int
    rows_added: int
    some_appeared: bool
    some_doubtful: bool
    has_nulls: tuple[bool, ...]


NO_CHANGES = MeasuredChanges(0, 0, 0, some_appeared=False, some_doubtful=False, has_nulls=())


@dataclass(frozen=True, slots=True, kw_only=True)
class Upstream:
    """
    The upstream as the engine reads it: the rows and columns that the job is about, and each row's vnode.

    :param path: canonical location.
    :param types: the used columns and their types, as Delta writes them.
    :param key: the key's order.
    :param scan: the order of positions: that of the key, or of (vnode, key).
    :param distribution_key: the columns that a row's vnode comes from.
    :param vnode_count: vnodes of the job.
    :param vnodes: those that the job is about.
    :param keys: the keys that the job is about.
    """

    path: str
    types: Mapping[str, str]
    key: KeyOrder
    scan: KeyOrder
    distribution_key: Sequence[str]
    vnode_count: int
    vnodes: frozenset[int]
    keys: KeyRange

    @property
    def columns(self) -> list[str]:
        """Names of the used columns."""
        return list(self.types)

    @property
    def has_key_positions(self) -> bool:
        """Whether positions are keys, so that all vnodes share one."""
        return self.scan == self.key

    @property
    def names(self) -> frozenset[str]:
        """Names of the used columns, and of all fields inside of them."""
        return names_within(self.types)

    @property
    def own(self) -> OwnColumns:
        """The package's names beside the used columns."""
        return own_columns(self.types)

    @property
    def is_restricted(self) -> bool:
        """Whether the job is about some vnodes alone."""
        return len(self.vnodes) < self.vnode_count

    @property
    def key_spans_vnodes(self) -> bool:
        """Whether rows with one key may lie in several vnodes, each with a position of its own."""
        return not self.has_key_positions and not set(self.distribution_key) <= set(self.key.names)

    def at(self, spark: SparkSession, version: int) -> DataFrame:
        """Return the used columns and the vnode as of a version."""
        return self._about(spark.read.format("delta").option("versionAsOf", version).load(self.path))

    def empty(self, spark: SparkSession) -> DataFrame:
        """Return the used columns and the vnode, without a row."""
        return self._about(spark.read.format("delta").load(self.path)).limit(0)

    def net_changes(self, spark: SparkSession, from_version: int, to_version: int, wanted: Column) -> DataFrame:
        """
        Return the net change of everything that changed in ``(from_version, to_version]``: per key, or vnode and key.

        The latest version wins, and inside one version an insert or a postimage beats a delete or a preimage: an
        update that changes the key is a delete of the old key and an insert of the new one, unless the same version
        also writes the old key (a swap). An update that moves a row to another vnode is a delete in one and an insert
        in the other.

        :param wanted: which changes to look at.
        :returns: the used columns, and of :attr:`own` ``vnode`` if the scan's order has it, ``is_upsert`` (else it is
            deleted; only the key columns count then), ``appeared``: it was written without having been removed, so it
            did not exist before; and what :meth:`net_by_key` needs.
        """
        own = self.own
        feed = self._feed(spark, from_version, to_version).filter(wanted)
        keys = [column(name) for name in self.key.names]
        scanned = [column(name) for name in self.scan.names]
        vnode = [] if self.has_key_positions else [F.col(own.vnode)]
        version, upsert = F.col(own.named(_COMMIT_VERSION)), F.col(own.is_upsert)
        is_upsert = F.col(own.named(_CHANGE_TYPE)).isin(*_UPSERTS)
        image = F.col(own.named(_IMAGE))
        changes = feed.select(
            *map(column, self.columns),
            *vnode,
            version,
            is_upsert.alias(own.is_upsert),
            self._image().alias(own.named(_IMAGE)),
        )
        # Windows that begin alike share one shuffle and one sort; groupings that carry whole rows sort once for each.
        in_order = Window.partitionBy(*scanned).orderBy(version, upsert)
        by_key = Window.partitionBy(*keys).orderBy(version, upsert)
        in_version = Window.partitionBy(*keys, version)
        was_upsert = F.lag(upsert).over(by_key)
        counted = changes.repartition(*keys).withColumns(
            {
                own.named("is_last"): F.lead(F.lit(1)).over(in_order).isNull(),
                own.named(_FIRST_VERSION): F.first(version).over(in_order),
            }
        )
        counted = counted.withColumns(
            {
                # What identifies a row is written and removed in turns, and what is removed is what was written.
                own.named("is_double"): was_upsert.eqNullSafe(upsert)
                | (was_upsert & ~upsert & ~F.lag(image).over(by_key).eqNullSafe(image)),
                own.named("key_is_new"): F.every(upsert).over(in_version),
            }
        )
        of_all = Window.partitionBy(*scanned)
        is_later = version > F.col(own.named(_FIRST_VERSION))
        counted = counted.withColumns(
            {
                own.appeared: F.every(is_later | upsert).over(of_all),
                own.named(KEY_APPEARED): F.every(is_later | F.col(own.named("key_is_new"))).over(of_all),
                own.named(HAS_DOUBLE): F.some(own.named("is_double")).over(Window.partitionBy(*keys)),
                own.named(ROWS_ADDED): F.sum(F.when(upsert, 1).otherwise(-1)).over(of_all),
            }
        )
        return counted.filter(F.col(own.named("is_last"))).select(
            *map(column, self.columns),
            *vnode,
            own.is_upsert,
            own.appeared,
            *map(own.named, (KEY_APPEARED, _FIRST_VERSION, HAS_DOUBLE, ROWS_ADDED)),
        )

    def _image(self) -> Column:
        """Return a hash of a row's used columns, as far as Spark can hash them; nulls count, which it passes over."""
        hashable = [column(name) for name, kind in self.types.items() if '"map"' not in kind and "variant" not in kind]
        return F.xxhash64(*(part for value in hashable for part in (value.isNull(), value)))

    def after(self, reads: Iterable[PinnedRead]) -> Column:
        """Return the condition: a change of rows in some ranges, after the version that they were read at."""
        values = {covered: read.version for read in reads for covered in decoded(read.ranges, self.scan)}
        return F.coalesce(self.is_after(value_of(self.scan, values)), F.lit(False))

    def is_after(self, version: int | Column) -> Column:
        """Return the condition: a change was committed after a version."""
        return F.col(self.own.named(_COMMIT_VERSION)) > version

    def is_read(self, ranges: Iterable[PinnedRange]) -> Column:
        """Return the condition: a row lies in some ranges; never null."""
        return value_of(self.scan, dict.fromkeys(decoded(ranges, self.scan), 1)).isNotNull()

    def leaves_something(self) -> Column:
        """Return the condition: a net change matters, that is, not of a row that came and went in between."""
        return F.col(self.own.is_upsert) | ~F.col(self.own.appeared)

    def net_by_key(self, net: DataFrame) -> DataFrame:
        """
        Return net changes per key, of those per vnode and key that were let through.

        A row that moved between vnodes is deleted in one and written in the other; the upsert wins.

        :returns: the used columns, and ``is_upsert`` and ``appeared`` of :attr:`own`.
        """
        if self.has_key_positions:
            return net
        own = self.own
        keys = [column(name) for name in self.key.names]
        upsert = F.col(own.is_upsert)
        row = own.named("row")
        grouped = net.groupBy(*keys).agg(
            F.max_by(F.struct(*map(column, self.columns)), upsert).alias(row),
            F.max(upsert).alias(own.is_upsert),
            F.min_by(own.named(KEY_APPEARED), own.named(_FIRST_VERSION)).alias(own.appeared),
        )
        return grouped.select(F.col(f"{row}.*"), own.is_upsert, own.appeared)

    def _about(self, rows: DataFrame, *extra: str) -> DataFrame:
        """Select what the job is about."""
        vnode = self.own.vnode
        rows = rows.select(*as_created(rows, self.types), *extra).withColumn(vnode, self.vnode_of({}))
        if self.is_restricted:
            rows = rows.filter(F.col(vnode).isin(sorted(self.vnodes)))
        return rows if self.keys == EVERYTHING else rows.filter(unskipped(within(self.key, self.keys)))

    def _feed(self, spark: SparkSession, from_version: int, to_version: int) -> DataFrame:
        feed = (
            spark.read.format("delta")
            .option("readChangeFeed", "true")
            .option("startingVersion", from_version + 1)
            .option("endingVersion", to_version)
            .load(self.path)
        )
        of_delta = {self.own.named(name): F.col(f"_{name}") for name in (_CHANGE_TYPE, _COMMIT_VERSION)}
        return self._about(feed.withColumns(of_delta), *of_delta)

    def vnode_of(self, renamed: Mapping[str, str]) -> Column:
        """
        Return a row's vnode.

        :param renamed: the names of columns of the distribution key, where they are not the upstream's.
        """
        # In the types that the columns had when the job was created; others have other hashes.
        hashed = [
            column(renamed.get(name, name)).cast(self.types[name])
            if not self.types[name].startswith("{")
            else column(renamed.get(name, name))
            for name in self.distribution_key
        ]
        return F.pmod(F.hash(*hashed), F.lit(self.vnode_count))

    def measure_chunk(self, chunk: DataFrame, *, expected: int) -> int:
        """
        Count the chunk's rows, and refuse a key that several of them have.

        Reads the key columns only. It is the same number for every attempt of an epoch, also for one that finds the
        chunk written already, which the write's own metrics could not say.

        :param expected: about how many rows it has.
        :raises DuplicateKeyError: if the key does not identify the rows.
        """
        keys = [column(name) for name in self.key.names]
        # Hashes are narrow, whatever the key is, and hardly ever the same.
        hashes = chunk.select(F.xxhash64(*keys).alias("__hash"))
        rows, distinct = _count_here(hashes) if are_few(expected) else _count_there(hashes)
        if distinct < rows and self.has_several(chunk):
            raise self.duplicates()
        return rows

    def has_several(self, rows: DataFrame) -> bool:
        """Tell whether several rows have the same key."""
        count = self.own.named("rows")
        counted = rows.groupBy(*map(column, self.key.names)).agg(F.count("*").alias(count))
        return bool(counted.filter(F.col(count) > 1).head(1))

    def measure_changes(self, net: DataFrame, visible: Column) -> MeasuredChanges:
        """
        Count net changes.

        :param visible: whether a change is let through to the view.
        """
        total = net.agg(
            F.count_if(visible).alias("through"),
            F.count("*").alias("rows"),
            F.sum(F.when(visible, F.col(self.own.named(ROWS_ADDED)))).alias("added"),
            F.some(self.own.named(HAS_DOUBLE)).alias("doubles"),
            F.some(F.col(self.own.appeared) | F.col(self.own.named(KEY_APPEARED))).alias("appeared"),
            F.array(*(F.some(column(name).isNull()) for name in self.key.names)).alias("has_nulls"),
        ).first()
        if total is None or not total["rows"]:
            return NO_CHANGES
        through = int(total["through"])
        held_back = int(total["rows"]) - through
        return MeasuredChanges(
            through,
            held_back,
            int(total["added"] or 0),
            some_appeared=bool(total["appeared"]),
            some_doubtful=bool(total["doubles"]),
            has_nulls=tuple(total["has_nulls"]),
        )

    def require_single(self, spark: SparkSession, net: DataFrame, version: int) -> None:
        """
        Refuse a key that appeared where several rows of the upstream have it.

        A merge sees that only where the view, and only where the same vnode has the key already.

        :param net: net changes.
        :param version: the window's end.
        :raises DuplicateKeyError: if the key does not identify the rows.
        """
        names, own = self.key.names, self.own
        appeared = own.numbered("appeared", len(names))
        new = net.filter(F.col(own.is_upsert) & F.col(own.appeared))
        keys = new.select(*map(column, names)).toDF(*appeared).distinct()
        same = [column(name).eqNullSafe(F.col(key)) for name, key in zip(names, appeared, strict=True)]
        rows = self.at(spark, version).select(*map(column, names)).join(keys, same, "left_semi")
        if self.has_several(rows):
            raise self.duplicates()

    def duplicates(self) -> DuplicateKeyError:
        """Return the error that says that the key does not identify the rows."""
        return DuplicateKeyError(
            f"{self.path} has several rows with the same key ({', '.join(self.key.names)}); give upstream.key the "
            "columns that identify a row, or remove the duplicates"
        )


def are_few(rows: int) -> bool:
    """Tell whether so many rows' keys can be looked at in the driver's memory."""
    return rows <= HASHES_IN_MEMORY


def column(name: str) -> Column:
    """Return a top-level column by its exact name, dots and all."""
    return F.col(quote(name))


def _count_here(hashes: DataFrame) -> tuple[int, int]:
    """Return the number of rows, and of different ones, from the driver's memory: a fraction of a shuffle's cost."""
    collected = hashes.toArrow().column(0)
    return len(collected), int(pc.count_distinct(collected, mode="all").as_py())


def _count_there(hashes: DataFrame) -> tuple[int, int]:
    """Return the number of rows, and of different ones, however many there are."""
    counted = hashes.groupBy("__hash").agg(F.count("*").alias("__rows"))
    total = counted.agg(F.sum("__rows").alias("rows"), F.count("*").alias("distinct")).collect()[0]
    return int(total["rows"] or 0), int(total["distinct"])
