"""An upstream, the job over it, and what its view has to hold, for epochs that run on real Spark."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import yaml
from deltalake import DeltaTable, write_deltalake

from tests.integration.airflow.orders_job import OrdersJob


class Orders(OrdersJob):
    """
    An upstream that deltalake writes, and the file of a job over it.

    :param folder: where the tables lie.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.upstream = str(folder / "orders")
        super().__init__(folder / "orders job.yaml")
        self.define()

    def define(self, **changes: Any) -> dict[str, Any]:
        """Write the job's file, with some fields changed; returns the definition."""
        definition = {
            "name": "paid_orders",
            "upstream": {"path": self.upstream, "key": ["order_id"]},
            "materialized_view": str(self.folder / "paid_orders"),
            "query": "SELECT order_id, amount * 100 AS cents FROM upstream WHERE amount > 0",
            "vnode_count": 4,
            "rate_limit": 60,
            **changes,
        }
        self.file.write_text(yaml.safe_dump(definition), encoding="utf-8")
        return definition

    def append(self, amounts: Mapping[int, int]) -> None:
        """Add orders as one version."""
        rows = {"order_id": pa.array(amounts, pa.int64()), "amount": pa.array(amounts.values(), pa.int32())}
        write_deltalake(
            self.upstream,
            pa.table(rows),
            mode="append",
            configuration={"delta.enableChangeDataFeed": "true"},
        )

    def delete(self, order_id: int) -> None:
        """Delete an order as one version."""
        DeltaTable(self.upstream).delete(f"order_id = {order_id}")

    def expected(self) -> dict[int, int]:
        """The query over the upstream's newest version, computed without Spark."""
        rows = DeltaTable(self.upstream).to_pyarrow_table().to_pylist()
        return {row["order_id"]: row["amount"] * 100 for row in rows if row["amount"] > 0}
