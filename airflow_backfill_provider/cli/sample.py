"""A small table of orders and a job over it, with which a new user sees a first view in minutes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import yaml

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable

FIRST_ORDERS = 10_000
MORE_ORDERS = 100

_STATUSES = ("paid", "open", "paid", "cancelled")


def job_file(folder: Path) -> Path:
    """Return where the job's file is in a folder of :func:`make_sample`."""
    return folder / "paid_orders.yaml"


def make_sample(folder: Path) -> str:
    """
    Make a Delta table of orders with change data feed, and a job over it; if the table exists, change some orders.

    :param folder: where to make them; it is made if it does not exist.
    :returns: what was done, as a sentence for the user.
    """
    from deltalake import DeltaTable

    folder = folder.absolute()
    orders = folder / "orders"
    if DeltaTable.is_deltatable(str(orders)):
        return _change(DeltaTable(str(orders)))
    _append(str(orders), range(FIRST_ORDERS))
    definition = {
        "name": "paid_orders",
        "upstream": {"path": str(orders), "key": ["order_id"]},
        "materialized_view": str(folder / "paid_orders"),
        "query": "SELECT order_id, customer_id, cents / 100 AS amount FROM upstream WHERE status = 'paid'",
        "rate_limit": 2_500,
    }
    job_file(folder).write_text(yaml.safe_dump(definition, sort_keys=False, width=120), encoding="utf-8")
    return f"wrote {FIRST_ORDERS} orders to {orders}, and the job {job_file(folder)}"


def _change(orders: DeltaTable) -> str:
    """Insert, update and delete some orders, each in a commit of its own."""
    from airflow_backfill_provider.lake.files.rows import read_rows

    newest: int = read_rows(orders, "max(order_id) AS newest")["newest"][0].as_py()
    # Of each hundred orders, other ones every time.
    number = len(_STATUSES) * (orders.version() % 25)
    _append(orders.table_uri, range(newest + 1, newest + 1 + MORE_ORDERS))
    orders.update_incremental()
    paid = orders.update(new_values={"status": "paid"}, predicate=f"status = 'open' AND order_id % 100 = {number + 1}")
    gone = orders.delete(f"status = 'cancelled' AND order_id % 100 = {number + 3}")
    return (
        f"changed the orders: {MORE_ORDERS} new ones, {paid['num_updated_rows']} open ones were paid, "
        f"{gone['num_deleted_rows']} cancelled ones were deleted"
    )


def _append(location: str, ids: range) -> None:
    from deltalake import write_deltalake

    write_deltalake(location, _orders(ids), mode="append", configuration={"delta.enableChangeDataFeed": "true"})


def _orders(ids: range) -> pa.Table:
    import pyarrow as pa

    return pa.table(
        {
            "order_id": pa.array(ids, pa.int64()),
            "customer_id": pa.array([number * 7 % 1_000 for number in ids], pa.int64()),
            "status": pa.array([_STATUSES[number % len(_STATUSES)] for number in ids]),
            "cents": pa.array([number * 37 % 50_000 for number in ids], pa.int64()),
        }
    )
