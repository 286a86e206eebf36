"""The orders as a Delta table. Its files are in key order, as in a table that is clustered by its key."""

from __future__ import annotations

import pyarrow as pa
from deltalake import write_deltalake

from airflow_backfill_provider.applications.spark_settings import storage_options_from_environment
from demo.orders import first_orders


def create_orders(path: str, rows: int, seed: int = 7) -> None:
    """Write the table with the given number of rows, file by file in key order."""
    for part in first_orders(rows, seed):
        append_orders(path, part)


def append_orders(path: str, orders: pa.Table) -> None:
    """
    Append orders as one version. The first call creates the table with its change data feed.

    The options of an object store come from the environment, as for ``airflow-backfill``.
    """
    write_deltalake(
        path,
        orders,
        mode="append",
        name="orders",
        configuration={"delta.enableChangeDataFeed": "true"},
        storage_options=storage_options_from_environment(),
    )
