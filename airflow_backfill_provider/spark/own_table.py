"""The one way in which a strategy's own table is made: with its first rows, in one commit, once per incarnation."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from airflow_backfill_provider.lake.tables.view_identity import ViewIdentity


def create_own_table(
    rows: DataFrame,
    path: str,
    identity: ViewIdentity,
    *,
    exists: Callable[[], bool],
    options: Mapping[str, str | int] | None = None,
) -> None:
    """
    Create a table of a strategy; a no-op if another process creates it first.

    :param rows: its first rows, maybe none.
    :param path: its location, where the caller has found no table.
    :param identity: the identity of the job's view.
    :param exists: returns whether the table exists by now.
    :param options: Delta's options, such as properties of the table.
    """
    created = {"event": "create", "incarnation": identity.incarnation}
    # Spark Connect accepts only this name of the mode.
    writer = rows.write.format("delta").mode("error").options(**(options or {}))
    try:
        writer.option("userMetadata", json.dumps(created)).save(path)
    except PySparkException:
        if not exists():
            raise
