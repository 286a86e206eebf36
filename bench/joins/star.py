"""A star: sales, and the customers and products that they name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from bench.sales import Sales

CUSTOMERS, PRODUCTS, COUNTRIES = 10_000, 1_000, 200

_ONE_OF = 1_000
"""One customer of so many changes: 0.1 % of them, and with them 0.1 % of the sales."""


@dataclass(frozen=True, slots=True)
class Star:
    """
    The tables of a star.

    :param folder: for the tables.
    :param rows: the sales at first.
    """

    folder: Path
    rows: int

    @property
    def sales(self) -> Sales:
        """The facts."""
        return Sales(self.folder / "sales", self.rows, {"customer_id": CUSTOMERS, "product_id": PRODUCTS})

    @property
    def tables(self) -> Mapping[str, str]:
        """The tables by their names in queries."""
        return {name: f"delta.`{self._path(name)}`" for name in ("sales", "customers", "products")}

    def upstreams(self, *names: str) -> dict[str, dict[str, Any]]:
        """Return some tables as the upstreams of a job."""
        return {name: {"path": self._path(name), "key": [f"{name.removesuffix('s')}_id"]} for name in names}

    def make(self, spark: SparkSession) -> None:
        """Write the tables."""
        self.sales.make(spark)
        self._make(
            spark, "customers", CUSTOMERS, f"concat('country ', pmod(id, {COUNTRIES})) AS country", "0 AS renamed"
        )
        self._make(spark, "products", PRODUCTS, "concat('category ', pmod(id, 50)) AS category")

    def change_customers(self, spark: SparkSession, number: int) -> None:
        """
        Rename 0.1 % of the customers.

        :param number: counts the calls; other customers change in each.
        """
        spark.sql(
            f"UPDATE {self.tables['customers']} SET renamed = renamed + 1, name = concat('customer ', customer_id, "
            f"', renamed ', renamed + 1) WHERE pmod(customer_id, {_ONE_OF}) = {number % _ONE_OF}"
        )

    def _path(self, name: str) -> str:
        return str(self.folder / name)

    def _make(self, spark: SparkSession, name: str, rows: int, *columns: str) -> None:
        one = name.removesuffix("s")
        (
            spark.range(0, rows, 1, 1)
            .selectExpr(f"id AS {one}_id", f"concat('{one} ', id) AS name", *columns)
            .write.format("delta")
            .option("delta.enableChangeDataFeed", "true")
            .save(self._path(name))
        )
