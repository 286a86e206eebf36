"""The rows of a source to whose splits rows are only appended, on Spark."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.core.scan.splits import SplitRange
from airflow_backfill_provider.sources.reader import CHANGE_OFFSET, CHANGE_TYPE
from airflow_backfill_provider.sources.shared.balanced import any_of
from airflow_backfill_provider.sources.shared.by_key import column


def as_inserts(rows: DataFrame, up_to: Offset) -> DataFrame:
    """
    Return rows as the changes of a window.

    All are at its end: between splits there is no order, and a view whose rows are all as of one offset needs none.
    """
    total, text = up_to.root if isinstance(up_to.root, tuple) else (-1, "")
    end = F.struct(F.lit(total).cast("long"), F.lit(text))
    return rows.withColumns({CHANGE_TYPE: F.lit("insert"), CHANGE_OFFSET: end})


def is_among(key: Sequence[str], ranges: Iterable[SplitRange]) -> Column:
    """
    Return the condition that a row has one of some places; it is never null.

    :param key: the names of the columns with the split and the place.
    """
    split, place = map(column, key)
    found = [(split == places.split) & (place >= places.begin) & (place < places.end) for places in ranges]
    return F.coalesce(any_of(found), F.lit(False))
