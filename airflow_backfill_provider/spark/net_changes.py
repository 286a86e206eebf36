"""
The net changes of a window per key, which an epoch applies.

Ports the buffered upstream chunks of the streaming executors with ``mark_chunk``. A source returns the changes of whole
commits instead of a stream, so they are netted per key before they are applied.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from airflow_backfill_provider.core.scan.keys import KeyKind
from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.sources.shared.balanced import sum_of
from airflow_backfill_provider.sources.shared.by_key import column, without_keys
from airflow_backfill_provider.spark.job_rows import JobRows, literal
from airflow_backfill_provider.spark.key_numbers import are_single
from airflow_backfill_provider.spark.predicates import without_data_skipping
from airflow_backfill_provider.spark.small_changes import are_few, bytes_of
from airflow_backfill_provider.spark.touched_units import TouchedUnits

_UPSERTS = ("insert", "update_postimage")

_FIRST_OFFSET, _IMAGE, _OLD, _IS_LAST = "first_offset", "image", "old", "is_last"

KEY_APPEARED = "key_appeared"
"""Flag of a net change per vnode and key: whether no vnode had a row of the key before."""

HAS_DOUBLE = "has_double"
"""Flag of a net change: whether the upstream had several rows of the key at some time."""

ROWS_ADDED = "rows_added"
"""Column of a net change: the number of rows that it adds; negative if it removes some."""


@dataclass(frozen=True, slots=True)
class MeasuredChanges:
    """
    The number of net changes, and their properties.

    :param through: the number of changes that apply to the view.
    :param held_back: the number of the others.
    :param rows_added: the rows that the changes to the view add to those read before; negative if they remove more.
    :param some_appeared: whether any change may be of a row that did not exist before.
    :param some_doubtful: whether the upstream had several rows of any of the keys at some time.
    :param has_nulls: for each key column, whether it is null in any change.
    :param key_bytes: bytes of all texts and binary values in the keys of the changes that apply to the view.
    :param value_bytes: bytes of all values without a fixed width in these changes, keys included.
    """

    through: int
    held_back: int
    rows_added: int
    some_appeared: bool
    some_doubtful: bool
    has_nulls: tuple[bool, ...]
    key_bytes: int
    value_bytes: int


NO_CHANGES = MeasuredChanges(
    0, 0, 0, some_appeared=False, some_doubtful=False, has_nulls=(), key_bytes=0, value_bytes=0
)


def net_changes(
    rows: JobRows, after: Offset, up_to: Offset, wanted: Column, old_columns: Sequence[str] | None = None
) -> DataFrame:
    """
    Return the net changes in ``(after, up_to]``: per key, or per vnode and key, or per vnode, unit and key.

    The latest offset wins. At one offset, an insert or a postimage wins over a delete or a preimage: an update that
    changes the key is a delete of the old key and an insert of the new one, unless the same commit also writes the old
    key (a swap). An update that moves a row to another vnode or unit is a delete in one and an insert in the other.

    :param wanted: the condition for the changes to read.
    :param old_columns: the used columns whose values before the window are needed; none of them if only whether there
        was a row; ``None`` if not even that. See :func:`old_images`.
    :returns: the used columns as of ``up_to``, and of the package's own columns: ``vnode`` and the unit if the scan's
        order has them; ``is_upsert``, or else the row is deleted and only its key columns count; ``appeared`` if the
        row did not exist before the window; the flags that :func:`net_by_key` needs; and what :func:`old_images` reads,
        if ``old_columns`` are given.
    """
    return _net(rows, _feed(rows, after, up_to, wanted), old_columns)


def no_net_changes(rows: JobRows, up_to: Offset, old_columns: Sequence[str] | None = None) -> DataFrame:
    """Return what :func:`net_changes` would of a window without changes, which need not be read."""
    return _net(rows, rows.no_changes(up_to), old_columns)


def changes_by_version(rows: JobRows, after: Offset, up_to: Offset, wanted: Column) -> DataFrame:
    """
    Return the changes in ``(after, up_to]`` that remain of each offset: at most one per offset and key.

    What :func:`net_changes` says of one offset holds here for each.

    :param wanted: the condition for the changes to read.
    :returns: what :func:`net_changes` does, where the flags are those of the whole window; the changes' offsets; and
        a flag by which :func:`net_of_versions` finds the last change of each key.
    """
    counted = _counted(rows, _feed(rows, after, up_to, wanted), None)
    offset, upsert = F.col(rows.change_offset), F.col(rows.own.is_upsert)
    in_order = Window.partitionBy(*map(column, rows.identity.names)).orderBy(offset, upsert)
    is_left = rows.own.named("is_left")
    counted = counted.withColumn(is_left, ~F.lead(offset).over(in_order).eqNullSafe(offset))
    return counted.filter(F.col(is_left)).drop(is_left)


def net_of_versions(rows: JobRows, versions: DataFrame) -> DataFrame:
    """Return the net changes of a window from its changes by version; see :func:`changes_by_version`."""
    return last_of_versions(rows, versions).drop(rows.own.named(_IS_LAST), rows.change_offset)


def last_of_versions(rows: JobRows, versions: DataFrame) -> DataFrame:
    """Return the last change of each key, from those of :func:`changes_by_version`."""
    return versions.filter(F.col(rows.own.named(_IS_LAST)))


def _feed(rows: JobRows, after: Offset, up_to: Offset, wanted: Column) -> DataFrame:
    return rows.changes(after, up_to).filter(wanted)


def _net(rows: JobRows, feed: DataFrame, old_columns: Sequence[str] | None) -> DataFrame:
    if old_columns is not None and not old_columns:
        # Old images are structs, and a struct has a column.
        old_columns = rows.key.names
    if rows.reader.appends_only:
        return _appended(rows, feed, old_columns)
    counted = _counted(rows, feed, old_columns)
    return net_of_versions(rows, counted)


def _counted(rows: JobRows, feed: DataFrame, old_columns: Sequence[str] | None) -> DataFrame:
    """Return the changes with the flags of net changes, their offsets, and whether each is the last of its key."""
    own = rows.own
    keys = [column(name) for name in rows.key.names]
    identity = [column(name) for name in rows.identity.names]
    places = [column(name) for name in rows.places]
    offset, upsert = F.col(rows.change_offset), F.col(own.is_upsert)
    image = F.col(own.named(_IMAGE))
    changes = feed.select(
        *_values(rows, old_columns or ()),
        *places,
        offset,
        _is_upsert(rows).alias(own.is_upsert),
        _image_of(rows).alias(own.named(_IMAGE)),
    )
    # Window functions with the same partition and order share one shuffle, one sort and one pass over the rows;
    # groupings of whole rows sort each time.
    in_order = Window.partitionBy(*identity).orderBy(offset, upsert)
    by_key = Window.partitionBy(*keys).orderBy(offset, upsert)
    of_key = by_key.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    in_commit = Window.partitionBy(*keys, offset)
    was_upsert = F.lag(upsert).over(by_key)
    # The first change of a row that was there is the removal of it as it was.
    of_first = {_old(rows): F.first(_old_image(old_columns, ~upsert)).over(in_order)} if old_columns else {}
    counted = changes.repartition(*keys).withColumns(
        {
            own.named(_IS_LAST): F.lead(F.lit(1)).over(in_order).isNull(),
            own.named(_FIRST_OFFSET): F.first(offset).over(in_order),
            # In one commit a removal comes first, so the first change shows whether there was a row before.
            own.appeared: F.first(upsert).over(in_order),
            # The last row is the only one that is left, and has the sum of all.
            own.named(ROWS_ADDED): F.sum(F.when(upsert, 1).otherwise(-1)).over(in_order),
            # A key must be written and removed in turn, and the removed row must be the one that was written.
            own.named("is_double"): was_upsert.eqNullSafe(upsert)
            | (was_upsert & ~upsert & ~F.lag(image).over(by_key).eqNullSafe(image)),
            # A key that has changes in several vnodes is new only if none of them had its row.
            own.named("key_is_new"): F.every(upsert).over(in_commit) if rows.has_vnode_positions else upsert,
            **of_first,
        }
    )
    counted = counted.withColumns(
        {
            own.named(KEY_APPEARED): F.first(own.named("key_is_new")).over(in_order),
            own.named(HAS_DOUBLE): (
                F.lit(False) if rows.reader.keys_are_unique else F.some(own.named("is_double")).over(of_key)
            ),
        }
    )
    return counted.select(
        *map(column, rows.columns),
        *places,
        own.is_upsert,
        own.appeared,
        *map(own.named, (KEY_APPEARED, _FIRST_OFFSET, HAS_DOUBLE, ROWS_ADDED)),
        *of_first,
        offset,
        own.named(_IS_LAST),
    )


def _appended(rows: JobRows, feed: DataFrame, old_columns: Sequence[str] | None) -> DataFrame:
    """Return the net changes if each is the insert of a new key: nothing is to be netted, so nothing is shuffled."""
    own = rows.own
    return feed.select(
        *map(column, rows.columns),
        *map(column, rows.places),
        F.lit(True).alias(own.is_upsert),
        F.lit(True).alias(own.appeared),
        F.lit(True).alias(own.named(KEY_APPEARED)),
        F.col(rows.change_offset).alias(own.named(_FIRST_OFFSET)),
        F.lit(False).alias(own.named(HAS_DOUBLE)),
        F.lit(1).cast("long").alias(own.named(ROWS_ADDED)),
        *((_old_image(old_columns, F.lit(False)).alias(_old(rows)),) if old_columns else ()),
    )


def with_cleared(rows: JobRows, net: DataFrame, keys: DataFrame, up_to: Offset) -> DataFrame:
    """
    Add the deletes of rows that were removed all at once, such as by TRUNCATE.

    :param net: the net changes since then.
    :param keys: the keys of all rows in the view; the key columns.
    :param up_to: the end of the window.
    """
    own, names = rows.own, rows.key.names
    # A key that was inserted again may be in the view, from before.
    net = net.withColumns({own.appeared: F.lit(False), own.named(KEY_APPEARED): F.lit(False)})
    removed = without_keys(keys, net.select(*map(column, names)), names)
    known = {
        own.is_upsert: F.lit(False),
        own.appeared: F.lit(False),
        own.named(KEY_APPEARED): F.lit(False),
        own.named(HAS_DOUBLE): F.lit(False),
        own.named(_FIRST_OFFSET): literal(up_to),
        own.named(ROWS_ADDED): F.lit(-1),
    }
    deletes = removed.select(
        *(
            (column(field.name) if field.name in names else known.get(field.name, F.lit(None)))
            .cast(field.dataType)
            .alias(field.name)
            for field in net.schema.fields
        )
    )
    return net.unionAll(deletes)


def old_images(rows: JobRows, net: DataFrame) -> DataFrame:
    """
    Return the ``old`` images of net changes: the changed rows as of the window's begin.

    An old image is the preimage or the delete of the first change of each key, or of each vnode and key. A row that
    appeared in the window has none. Its key and its vnode are those of its net change, so both images of a change lie
    on the same side of a position, and a filter of net changes by their position filters the old images as well.

    :param net: net changes with ``old_columns``; see :func:`net_changes`.
    :returns: these columns, under their names.
    """
    old = _old(rows)
    return net.filter(F.col(old).isNotNull()).select(F.col(f"{old}.*"))


def new_images(rows: JobRows, net: DataFrame) -> DataFrame:
    """Return the ``new`` images of net changes: the changed rows as of the window's end, with the used columns."""
    return net.filter(rows.own.is_upsert).select(*map(column, rows.columns))


def leaves_something(rows: JobRows) -> Column:
    """Return the condition that excludes rows that appeared and disappeared within the window."""
    return F.col(rows.own.is_upsert) | ~F.col(rows.own.appeared)


def net_by_key(rows: JobRows, net: DataFrame) -> DataFrame:
    """
    Return the net changes of the view per key, from those per vnode and key.

    A row that moved between vnodes is deleted in one and written in the other; the upsert wins.

    :returns: the used columns, and the package's own ``is_upsert`` and ``appeared``.
    """
    if not rows.has_vnode_positions:
        return net
    own = rows.own
    keys = [column(name) for name in rows.key.names]
    upsert = F.col(own.is_upsert)
    row = own.named("row")
    grouped = net.groupBy(*keys).agg(
        F.max_by(F.struct(*map(column, rows.columns)), upsert).alias(row),
        F.max(upsert).alias(own.is_upsert),
        F.min_by(own.named(KEY_APPEARED), own.named(_FIRST_OFFSET)).alias(own.appeared),
    )
    return grouped.select(F.col(f"{row}.*"), own.is_upsert, own.appeared)


def measure_changes(rows: JobRows, net: DataFrame, visible: Column) -> MeasuredChanges:
    """
    Count net changes.

    :param visible: the condition that a change applies to the view.
    """
    own = rows.own
    total = net.agg(
        F.count_if(visible).alias("through"),
        F.count("*").alias("rows"),
        F.sum(F.when(visible, F.col(own.named(ROWS_ADDED)))).alias("added"),
        F.some(own.named(HAS_DOUBLE)).alias("doubles"),
        F.some(F.col(own.appeared) | F.col(own.named(KEY_APPEARED))).alias("appeared"),
        F.array(*(F.some(column(name).isNull()) for name in rows.key.names)).alias("has_nulls"),
        F.sum(F.when(visible, _text_bytes(rows))).alias("key_bytes"),
        F.sum(F.when(visible, bytes_of(rows.types))).alias("value_bytes"),
    ).first()
    if total is None or not total["rows"]:
        return NO_CHANGES
    through = int(total["through"])
    return MeasuredChanges(
        through,
        int(total["rows"]) - through,
        int(total["added"] or 0),
        some_appeared=bool(total["appeared"]),
        some_doubtful=bool(total["doubles"]),
        has_nulls=tuple(total["has_nulls"]),
        key_bytes=int(total["key_bytes"] or 0),
        value_bytes=int(total["value_bytes"] or 0),
    )


def require_single(rows: JobRows, net: DataFrame, measured: MeasuredChanges, offset: Offset) -> None:
    """
    Refuse net changes if several rows of the upstream have a key that appeared in them.

    A merge detects that only if the view already has the key, in the same vnode.

    :param net: net changes.
    :param measured: their number.
    :param offset: the window's end.
    :raises DuplicateKeyError: if the key does not identify the rows.
    """
    if rows.reader.keys_are_unique:
        return
    names, own = rows.key.names, rows.own
    appeared = net.filter(F.col(own.is_upsert) & F.col(own.appeared)).select(*map(column, names))
    may_be_held = are_few(measured.through + measured.held_back, len(names), measured.key_bytes)
    stored = rows.stored_keys(offset) if may_be_held else None
    if stored is not None and are_single(stored, appeared.toArrow()):
        return
    keys = TouchedUnits.of(appeared, names)
    if not keys.number:
        return
    present = rows.at(offset).select(*map(column, names))
    # New keys often follow each other, and to compare a key costs less than to look it up.
    for condition in keys.within():
        present = present.filter(without_data_skipping(F.expr(condition)))
    if rows.has_several(keys.rows_in(present)):
        raise rows.duplicates()


def _text_bytes(rows: JobRows) -> Column:
    """Return the bytes of the texts and binary values in a key."""
    sizes = [
        F.coalesce(F.octet_length(column(field.name)).cast("long"), F.lit(0))
        for field in rows.key.fields
        if field.kind in (KeyKind.STRING, KeyKind.BINARY)
    ]
    return sum_of(sizes)


def _old(rows: JobRows) -> str:
    """Return the name of the column with the old images of net changes."""
    return rows.own.named(_OLD)


def _old_image(old_columns: Sequence[str], was_there: Column) -> Column:
    """Return the values before a change in one column; null if there was no row."""
    return F.when(was_there, F.struct(*map(column, old_columns)))


def _values(rows: JobRows, old_columns: Sequence[str]) -> list[Column]:
    """
    Return the used columns.

    A removed row keeps what says where it was, its key and its vnode, and what is needed of old images; its other
    values would be moved and sorted for nothing.
    """
    kept = {*rows.key.names, *rows.distribution_key, *old_columns}
    return [
        column(name) if name in kept else F.when(_is_upsert(rows), column(name)).alias(name) for name in rows.columns
    ]


def _is_upsert(rows: JobRows) -> Column:
    return F.col(rows.change_type).isin(*_UPSERTS)


def _image_of(rows: JobRows) -> Column:
    """Return a hash of the used columns that Spark can hash; unlike Spark's hash, it includes nulls."""
    hashable = [column(name) for name, kind in rows.types.items() if '"map"' not in kind and "variant" not in kind]
    return F.xxhash64(*(part for value in hashable for part in (value.isNull(), value)))
