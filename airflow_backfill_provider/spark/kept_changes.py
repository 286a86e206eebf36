"""Keeps rows that are used several times, such as the changes of a window."""

from __future__ import annotations

from contextlib import ExitStack

from pyspark.sql import DataFrame

from airflow_backfill_provider.sources.shared.kept_rows import KEPT
from airflow_backfill_provider.spark.session import session_settings
from airflow_backfill_provider.spark.shallow_rows import shallow

_FEED = {"spark.databricks.delta.deletionVectors.useMetadataRowIndex": "false"}
"""
Lets Delta's own reader leave out the rows that deletion vectors hide.

To find the rows that a DELETE has hidden, the change feed reads whole files, and Spark would make a struct of the
file's metadata for each of their rows; see :mod:`airflow_backfill_provider.sources.shared.hidden_rows`, whose way is
not open here. Delta's reader divides no file among tasks, but is several times as fast.
"""


def kept_rows(rows: DataFrame, opened: ExitStack) -> DataFrame:
    """
    Return rows that are computed once.

    :param opened: forgets them when it ends.
    """
    kept = shallow(rows, opened).persist(KEPT)
    opened.callback(kept.unpersist)
    return kept


def kept_changes(changes: DataFrame, opened: ExitStack) -> DataFrame:
    """
    Return changes that are read once.

    :param changes: what is made of a change feed.
    :param opened: forgets them when it ends.
    """
    # Spark plans how a feed is read when it is told to keep what is made of it.
    with session_settings(changes.sparkSession, _FEED):
        return kept_rows(changes, opened)
