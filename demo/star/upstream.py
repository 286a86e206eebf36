"""The upstreams of ``make demo ARGS=--star``: three Delta tables that all change."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder

from airflow_backfill_provider.applications.spark_settings import storage_options_from_environment
from airflow_backfill_provider.core import text
from airflow_backfill_provider.core.status.job_status import JobStatus
from demo.delta.upstream import DeltaOrders
from demo.folder import short_path
from demo.job import quoted, write_job_over
from demo.orders import CUSTOMERS, KEY
from demo.star.tables import COUNTRIES, create_countries, create_customers

_UPSTREAMS = """\
upstreams:
  orders: {{path: {orders}, key: [{order_key}]}}
  customers: {{path: {customers}, key: [customer_id]}}
  countries: {{path: {countries}, key: [code]}}"""


class DeltaStar(DeltaOrders):
    """The orders with their customers and countries, in three Delta tables."""

    title: ClassVar[str] = "The upstreams: orders, customers and countries in Delta tables that all change"
    reading: ClassVar[Sequence[str]] = (
        "Each epoch joins the next orders with their customers and countries.",
        "It also joins the orders anew that a change of any of the three tables touches.",
        "So each version of the view is its query over all three tables as of one instant.",
    )
    stay_command: ClassVar[str] = 'make demo ARGS="--star --stay"'
    query: ClassVar[str] = """\
SELECT o.region, o.order_id, c.customer, n.title AS country,
       CAST(o.amount * (1 - coalesce(o.discount, 0)) * 100 AS BIGINT) AS cents,
       o.status, date(o.ordered_at) AS ordered_on
FROM orders AS o
JOIN customers AS c ON c.customer_id = o.customer_id
JOIN countries AS n ON n.code = c.country
WHERE o.status IN ('open', 'paid', 'shipped')
"""
    totals: ClassVar[str] = """\
SELECT country, count(*) AS orders, sum(cents) AS cents
FROM upstream
GROUP BY country
"""
    totals_name: ClassVar[str] = "revenue_by_country"
    has_totals: ClassVar[bool] = True

    @property
    def tables(self) -> Mapping[str, str]:
        """The locations of the tables by the names that the query gives them."""
        folder = self.run.folder
        return {
            "orders": folder.orders,
            "customers": folder.table("customers"),
            "countries": folder.table("countries"),
        }

    @property
    def writer_command(self) -> Sequence[str]:
        """The writer of all tables."""
        return ["-m", "demo.star.writer", *self.tables.values()]

    def write_job(self) -> None:
        """Write the job's file."""
        tables = {name: quoted(location) for name, location in self.tables.items()}
        upstreams = _UPSTREAMS.format(order_key=", ".join(KEY), **tables)
        write_job_over(self.run.folder, upstreams, self.size.rate_limit, self.query)

    def create(self) -> None:
        """Write the tables."""
        super().create()
        terminal, tables = self.run.terminal, self.tables
        with terminal.step(f"writing {text.rows(CUSTOMERS)} to {short_path(tables['customers'])}"):
            create_customers(tables["customers"])
        with terminal.step(f"writing {text.rows(len(COUNTRIES))} to {short_path(tables['countries'])}"):
            create_countries(tables["countries"])

    def check_command(self, status: JobStatus, view: str, query: Path) -> Sequence[str]:
        """Read each table as of the version that the view is at."""
        read = [
            word
            for name, location in self.tables.items()
            for word in ("--table", name, location, str(status.upstreams[name].version))
        ]
        return [sys.executable, "-m", "demo.star.check", *read, view, str(query)]

    def as_of(self, status: JobStatus) -> str:
        """Name the version of each table."""
        return ", ".join(f"version {status.upstreams[name].version} of {name}" for name in self.tables)

    def result(self, views: Mapping[str, str]) -> Sequence[str]:
        """Return the revenue of each country."""
        table = DeltaTable(views[self.totals_name], storage_options=storage_options_from_environment())
        query = QueryBuilder().register("revenue", table)
        found = pa.table(query.execute("SELECT * FROM revenue ORDER BY cents DESC").read_all())
        return ["revenue by country:"] + [
            f"  {row['country']}: {row['cents'] / 100:,.2f} of {text.counted(row['orders'], 'order')}"
            for row in found.to_pylist()
        ]
