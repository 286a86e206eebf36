"""The changes of a source whose rows are only appended to splits, on Spark."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from airflow_backfill_provider.core.offset import Offset
from airflow_backfill_provider.sources.reader import CHANGE_OFFSET, CHANGE_TYPE


def as_inserts(rows: DataFrame, up_to: Offset) -> DataFrame:
    """
    Return rows as the changes of a window.

    All are at its end: between splits there is no order, and a view whose rows are all as of one offset needs none.
    """
    total, text = up_to.root if isinstance(up_to.root, tuple) else (-1, "")
    end = F.struct(F.lit(total).cast("long"), F.lit(text))
    return rows.withColumns({CHANGE_TYPE: F.lit("insert"), CHANGE_OFFSET: end})
