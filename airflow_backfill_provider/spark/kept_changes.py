"""Keeps the changes of a window, which are used several times."""

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


def kept_changes(changes: DataFrame, opened: ExitStack) -> DataFrame:
    """
    Return changes that are read once.

    :param changes: what is made of a change feed.
    :param opened: forgets them when it ends.
    """
    # Spark plans how a feed is read when it is told to keep what is made of it.
    with session_settings(changes.sparkSession, _FEED):
        kept = shallow(changes, opened).persist(KEPT)
    opened.callback(kept.unpersist)
    return kept
