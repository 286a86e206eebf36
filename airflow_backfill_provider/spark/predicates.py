"""
Key comparisons as Spark expressions.

They mean the same as :meth:`airflow_backfill_provider.core.scan.keys.KeyOrder.compare`: column by column, nulls first,
each column in its own direction. For a position shorter than the key, only its columns count.

Spark and Delta skip files and parts of them by statistics, but only for conditions on plain columns. So the condition
on the leading column is also added separately, to allow skipping. If statistics may be rounded, this condition is
widened, and the exact ones are hidden from skipping.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from airflow_backfill_provider.core.job.sql import quote
from airflow_backfill_provider.core.scan import decimals
from airflow_backfill_provider.core.scan.keys import KeyField, KeyKind, KeyOrder, KeyRange, KeyValue, Position
from airflow_backfill_provider.sources.shared.balanced import all_of, any_of

Comparison = Callable[[KeyField, KeyValue | None], Column]


def literal(field: KeyField, value: KeyValue) -> Column:
    """Return a literal of exactly the key column's type, independent of the session's time zone."""
    text = field.encode(value)
    if field.kind is KeyKind.STRING:
        return F.lit(text)
    if field.kind is KeyKind.BINARY:
        return F.unhex(F.lit(text))
    return F.lit(text).cast(field.type)


def in_any(order: KeyOrder, ranges: Iterable[KeyRange]) -> Column:
    """Return the condition: the key lies in one of the ranges."""
    return any_of([within(order, covered) for covered in ranges])


def without_data_skipping(condition: Column) -> Column:
    """
    Return a condition that is hidden from data skipping.

    Delta and Parquet skip by comparisons of columns, but not by a function of the whole condition.
    """
    return F.greatest(condition, condition)


def without_pushdown(rows: DataFrame) -> DataFrame:
    """
    Return rows for which a later condition, such as that of a query, skips no files.

    Spark pushes conditions down to the files that it reads, but not past a non-deterministic one.
    """
    return rows.filter(F.spark_partition_id() >= 0)


def within(order: KeyOrder, covered: KeyRange) -> Column:
    """Return the condition: the key lies in the range."""
    condition = F.lit(True)
    if covered.after is not None:
        condition = after(order, covered.after)
    if covered.up_to is not None:
        ends = at_or_before(order, covered.up_to)
        condition = ends if covered.after is None else condition & ends
    # In a data file, Spark confuses the statistics of the field `b` in `a` with those of a column `a.b`.
    return without_data_skipping(condition) if any("." in name for name in order.names) else condition


def value_of(order: KeyOrder, values: Mapping[KeyRange, Column | int]) -> Column:
    """
    Return the value of the range that the key lies in; null if it lies in none.

    It is a binary search, so a row is compared with few of the ranges' ends even if there are many ranges.

    :param values: disjoint ranges, and the value of each.
    """
    return _value_of(order, sorted(values.items(), key=lambda item: _end(order, item[0].after or ())))


def _value_of(order: KeyOrder, values: Sequence[tuple[KeyRange, Column | int]]) -> Column:
    if not values:
        return F.lit(None).cast("long")
    if len(values) == 1:
        ((covered, value),) = values
        return F.when(within(order, covered), F.lit(value))
    first, second = values[: len(values) // 2], values[len(values) // 2 :]
    end = first[-1][0].up_to
    if end is None:
        raise ValueError(f"{second[0][0]} overlaps another range, which has no end")
    return F.when(at_or_before(order, end), _value_of(order, first)).otherwise(_value_of(order, second))


def _end(order: KeyOrder, position: Position) -> tuple[object, ...]:
    """Return a sort key for positions as bounds; a shorter one sorts after all keys that begin with it."""
    return (*order.sort_key(position), (2,)) if position else ()


def after(order: KeyOrder, position: Position) -> Column:
    """Return the condition: key > position."""
    field, value = order.fields[0], position[0]
    leading = F.lit(True) if value is None else _at_or_beyond(field, value)
    return leading & _exact(order, _any_prefix_equal(order, position, _greater, last=_greater))


def at_or_before(order: KeyOrder, position: Position) -> Column:
    """Return the condition: key <= position."""
    field, value = order.fields[0], position[0]
    column = _column(field)
    leading = column.isNull() if value is None else column.isNull() | _at_or_within(field, value)
    return leading & _exact(order, _any_prefix_equal(order, position, _less, last=_less_or_equal))


def _exact(order: KeyOrder, condition: Column) -> Column:
    """Return an exact condition, hidden from statistics if those of any of its columns may be rounded."""
    return without_data_skipping(condition) if any(map(_is_rounded, order.fields)) else condition


def _is_rounded(field: KeyField) -> bool:
    return field.kind is KeyKind.DECIMAL and decimals.is_rounded(field.type)


def _any_prefix_equal(order: KeyOrder, position: Position, compare: Comparison, *, last: Comparison) -> Column:
    """Return the condition: for some column, all columns before it are equal, and it compares as given."""
    known = [*zip(order.fields, position, strict=False)]
    equal = [_equal(field, value) for field, value in known]
    compared = [compare(field, value) for field, value in known[:-1]] + [last(*known[-1])]
    return any_of([all_of([*equal[:index], condition]) for index, condition in enumerate(compared)])


def _column(field: KeyField) -> Column:
    return F.col(quote(field.name))


def _equal(field: KeyField, value: KeyValue | None) -> Column:
    return _column(field).isNull() if value is None else _column(field).eqNullSafe(literal(field, value))


def _greater(field: KeyField, value: KeyValue | None) -> Column:
    column = _column(field)
    if value is None:
        return column.isNotNull()
    point = literal(field, value)
    return column < point if field.descending else column > point


def _less(field: KeyField, value: KeyValue | None) -> Column:
    column = _column(field)
    if value is None:
        return F.lit(False)
    point = literal(field, value)
    return column.isNull() | (column > point if field.descending else column < point)


def _less_or_equal(field: KeyField, value: KeyValue | None) -> Column:
    return _less(field, value) | _equal(field, value)


def _at_or_beyond(field: KeyField, value: KeyValue) -> Column:
    return _at_most(field, value) if field.descending else _at_least(field, value)


def _at_or_within(field: KeyField, value: KeyValue) -> Column:
    return _at_least(field, value) if field.descending else _at_most(field, value)


def _at_least(field: KeyField, value: KeyValue) -> Column:
    bound = decimals.lowest_statistic(value, field.type) if isinstance(value, Decimal) else value
    return F.lit(True) if bound is None else _column(field) >= literal(field, bound)


def _at_most(field: KeyField, value: KeyValue) -> Column:
    bound = decimals.highest_statistic(value, field.type) if isinstance(value, Decimal) else value
    return F.lit(True) if bound is None else _column(field) <= literal(field, bound)
