"""
Tables of TPC-H with few rows, which the benchmark's refresh functions change, and their rows as Python's values.

Values are in the ranges of the specification. There are fewer nations, and orders lie closer together, so that the
queries find rows.
"""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any

from airflow_backfill_provider.core.job.sql import quote
from tests.integration.engine.lakehouse import CHANGE_DATA_FEED, Lakehouse

Row = dict[str, Any]

COLUMNS: Mapping[str, str] = {
    "region": "r_regionkey INT, r_name STRING",
    "nation": "n_nationkey INT, n_name STRING, n_regionkey INT",
    "supplier": "s_suppkey INT, s_name STRING, s_nationkey INT",
    "customer": "c_custkey INT, c_name STRING, c_address STRING, c_nationkey INT, c_phone STRING, "
    "c_acctbal DECIMAL(15, 2), c_mktsegment STRING, c_comment STRING",
    "part": "p_partkey INT, p_type STRING",
    "orders": "o_orderkey BIGINT, o_custkey INT, o_orderdate DATE, o_orderpriority STRING, o_shippriority INT",
    "lineitem": "l_orderkey BIGINT, l_linenumber INT, l_partkey INT, l_suppkey INT, l_extendedprice DECIMAL(15, 2), "
    "l_discount DECIMAL(15, 2), l_returnflag STRING, l_shipdate DATE, l_commitdate DATE, l_receiptdate DATE, "
    "l_shipmode STRING",
}
KEYS: Mapping[str, tuple[str, ...]] = {
    "region": ("r_regionkey",),
    "nation": ("n_nationkey",),
    "supplier": ("s_suppkey",),
    "customer": ("c_custkey",),
    "part": ("p_partkey",),
    "orders": ("o_orderkey",),
    "lineitem": ("l_orderkey", "l_linenumber"),
}
_NATIONS = ("INDIA", "CHINA", "JAPAN", "VIETNAM", "PERU", "KENYA")
_REGIONS = ("ASIA", "AMERICA", "AFRICA")
_SEGMENTS = ("BUILDING", "MACHINERY", "FURNITURE")
_PRIORITIES = ("1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED", "5-LOW")
_MODES = ("MAIL", "SHIP", "RAIL", "AIR")
_TYPES = ("PROMO BURNISHED COPPER", "STANDARD POLISHED TIN", "PROMO PLATED STEEL", "SMALL BRUSHED BRASS")
_CUSTOMERS, _SUPPLIERS, _PARTS = 12, 6, 15


class TpchTables:
    """
    Some tables of the benchmark.

    :param names: the tables.
    """

    def __init__(self, lakehouse: Lakehouse, random: random.Random, names: Iterable[str]) -> None:
        self.names = tuple(names)
        self._lakehouse = lakehouse
        self._random = random
        self._rows: dict[str, dict[tuple[Any, ...], Row]] = {name: {} for name in COLUMNS}
        properties = ", ".join(f"'{name}' = '{value}'" for name, value in CHANGE_DATA_FEED.items())
        for name in self.names:
            self._run(f"CREATE TABLE {self._table(name)} ({COLUMNS[name]}) USING delta TBLPROPERTIES ({properties})")
        for name, rows in self._dimensions().items():
            self._insert(name, rows)

    def __getitem__(self, name: str) -> list[Row]:
        """Return the rows of a table."""
        return list(self._rows[name].values())

    def path(self, name: str) -> str:
        """Return the location of a table."""
        return f"{self._lakehouse.folder}/{name}"

    def add_orders(self, keys: Iterable[int]) -> None:
        """Insert orders and their lines, as the first refresh function does."""
        orders = [self._order(key) for key in keys]
        self._insert("orders", orders)
        self._insert("lineitem", [line for order in orders for line in self._lines(order)])

    def remove_orders(self, keys: Iterable[int]) -> None:
        """Delete orders and their lines, as the second refresh function does."""
        gone = set(keys)
        for name, column in (("orders", "o_orderkey"), ("lineitem", "l_orderkey")):
            self._rows[name] = {key: row for key, row in self._rows[name].items() if row[column] not in gone}
            if name in self.names:
                self._run(f"DELETE FROM {self._table(name)} WHERE {column} IN ({', '.join(map(str, sorted(gone)))})")

    def move_customers(self) -> None:
        """Give a third of the customers another nation and segment; suppliers of one nation move, too."""
        for row in self["customer"]:
            if row["c_custkey"] % 3 == 0:
                row |= {"c_nationkey": 0, "c_mktsegment": "BUILDING", "c_name": f"{row['c_name']} Ltd"}
        for row in self["supplier"]:
            row["s_nationkey"] = 0 if row["s_nationkey"] == 1 else row["s_nationkey"]
        self._update(
            "customer",
            "c_nationkey = 0, c_mktsegment = 'BUILDING', c_name = concat(c_name, ' Ltd') WHERE c_custkey % 3 = 0",
        )
        self._update("supplier", "s_nationkey = 0 WHERE s_nationkey = 1")

    def rename(self) -> None:
        """Change small tables, on which many orders hang: names of nations, kinds of parts, priorities of orders."""
        for row in self["nation"]:
            row["n_name"] = f"{row['n_name']}!"
        for row in self["part"]:
            row["p_type"] = "ECONOMY" if row["p_partkey"] % 2 == 0 else row["p_type"]
        for row in self["orders"]:
            row["o_orderpriority"] = "1-URGENT" if row["o_orderkey"] % 4 == 0 else row["o_orderpriority"]
        self._update("nation", "n_name = concat(n_name, '!')")
        self._update("part", "p_type = 'ECONOMY' WHERE p_partkey % 2 = 0")
        self._update("orders", "o_orderpriority = '1-URGENT' WHERE o_orderkey % 4 = 0")

    def _update(self, name: str, change: str) -> None:
        if name in self.names:
            self._run(f"UPDATE {self._table(name)} SET {change}")

    def _dimensions(self) -> dict[str, list[Row]]:
        number = self._random.randrange
        return {
            "region": [{"r_regionkey": key, "r_name": name} for key, name in enumerate(_REGIONS)],
            "nation": [
                {"n_nationkey": key, "n_name": name, "n_regionkey": max(0, key - 3)}
                for key, name in enumerate(_NATIONS)
            ],
            "supplier": [
                {"s_suppkey": key, "s_name": f"Supplier {key}", "s_nationkey": key % len(_NATIONS)}
                for key in range(_SUPPLIERS)
            ],
            "customer": [
                {
                    "c_custkey": key,
                    "c_name": f"Customer {key}",
                    "c_address": f"{key} Main Street",
                    "c_nationkey": key % len(_NATIONS),
                    "c_phone": f"{10 + key}-555-0100",
                    "c_acctbal": Decimal(number(-99_999, 999_999)) / 100,
                    "c_mktsegment": self._random.choice(_SEGMENTS),
                    "c_comment": "carefully final",
                }
                for key in range(_CUSTOMERS)
            ],
            "part": [{"p_partkey": key, "p_type": self._random.choice(_TYPES)} for key in range(_PARTS)],
        }

    def _order(self, key: int) -> Row:
        return {
            "o_orderkey": key,
            "o_custkey": self._random.randrange(_CUSTOMERS),
            "o_orderdate": dt.date(1993, 9, 1) + dt.timedelta(days=self._random.randrange(730)),
            "o_orderpriority": self._random.choice(_PRIORITIES),
            "o_shippriority": 0,
        }

    def _lines(self, order: Row) -> Iterator[Row]:
        for line in range(1, self._random.randint(1, 7) + 1):
            shipped = order["o_orderdate"] + dt.timedelta(days=self._random.randint(1, 121))
            received = shipped + dt.timedelta(days=self._random.randint(1, 30))
            yield {
                "l_orderkey": order["o_orderkey"],
                "l_linenumber": line,
                "l_partkey": self._random.randrange(_PARTS),
                "l_suppkey": self._random.randrange(_SUPPLIERS),
                "l_extendedprice": Decimal(self._random.randint(90_000, 10_000_000)) / 100,
                "l_discount": Decimal(self._random.randint(0, 10)) / 100,
                "l_returnflag": self._random.choice("RA") if received <= dt.date(1995, 6, 17) else "N",
                "l_shipdate": shipped,
                "l_commitdate": order["o_orderdate"] + dt.timedelta(days=self._random.randint(30, 90)),
                "l_receiptdate": received,
                "l_shipmode": self._random.choice(_MODES),
            }

    def _insert(self, name: str, rows: list[Row]) -> None:
        self._rows[name] |= {tuple(row[column] for column in KEYS[name]): row for row in rows}
        if name in self.names:
            values = ", ".join(f"({', '.join(map(_sql, row.values()))})" for row in rows)
            self._run(f"INSERT INTO {self._table(name)} VALUES {values}")

    def _table(self, name: str) -> str:
        return f"delta.{quote(self.path(name))}"

    def _run(self, statement: str) -> None:
        self._lakehouse.spark.sql(statement)


def _sql(value: Any) -> str:
    return f"DATE'{value}'" if isinstance(value, dt.date) else repr(value) if isinstance(value, str) else str(value)
