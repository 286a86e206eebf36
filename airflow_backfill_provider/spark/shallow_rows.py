"""Rows whose plan is short, however many steps made them."""

from __future__ import annotations

import uuid
from contextlib import ExitStack

from pyspark.sql import DataFrame
from pyspark.sql.classic.dataframe import DataFrame as OwnDataFrame


def shallow(rows: DataFrame, opened: ExitStack) -> DataFrame:
    """
    Return rows over which a client of Spark Connect can run a query.

    A client sends a query's rows as messages in which each step holds the one before it, and at most a hundred of them
    may be nested. Under a name, the server keeps the steps so far.

    :param rows: rows that many steps made.
    :param opened: forgets the name when it ends.
    """
    if isinstance(rows, OwnDataFrame):
        return rows
    name = f"backfill_rows_{uuid.uuid4().hex}"
    rows.createTempView(name)
    opened.callback(rows.sparkSession.catalog.dropTempView, name)
    return rows.sparkSession.table(name)
