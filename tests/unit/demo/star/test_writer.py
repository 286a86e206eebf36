"""The writer of the star's tables: it changes all three, and its keys stay unique."""

from __future__ import annotations

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder
from rich.console import Console

from airflow_backfill_provider.core.job.definition import BackfillJob
from demo.delta.table import create_orders
from demo.folder import DemoFolder, Size
from demo.orders import CUSTOMERS
from demo.processes import Processes
from demo.run import DemoRun
from demo.star.tables import COUNTRIES, create_countries, create_customers
from demo.star.upstream import DeltaStar
from demo.star.writer import StarWriter
from demo.terminal import Terminal

pytestmark = pytest.mark.slow  # makes tables as large as the writer needs


@pytest.fixture
def star(tmp_path) -> DeltaStar:
    folder = DemoFolder(tmp_path)
    folder.logs.mkdir()
    run = DemoRun(folder, Processes(folder.logs), Processes(folder.logs), Terminal(Console()))
    return DeltaStar(run, Size(rows=3000, rate_limit=1000, epochs_per_run=2))


def rows_of(location: str, query: str) -> list[dict]:
    found = QueryBuilder().register("rows", DeltaTable(location)).execute(query).read_all()
    return pa.table(found).to_pylist()


def test_all_three_tables_change_and_keep_their_keys(star):
    orders, customers, countries = star.tables.values()
    create_orders(orders, 3000)
    create_customers(customers)
    create_countries(countries)
    writer = StarWriter(orders, customers, countries, seed=3)
    for _ in range(30):
        writer.commit()

    assert writer.report.commits == 30
    versions = [DeltaTable(location).version() for location in (orders, customers, countries)]
    assert writer.report.now_at == "version {} of orders, {} of customers, {} of countries".format(*versions)
    assert sum(versions) > 30
    assert min(versions) > 0
    (found,) = rows_of(customers, "SELECT count(*) AS rows, count(DISTINCT customer_id) AS keys FROM rows")
    assert found["rows"] == found["keys"] <= CUSTOMERS
    assert {row["code"] for row in rows_of(countries, "SELECT code FROM rows")} == set(COUNTRIES)


def test_the_job_reads_all_three_tables_and_the_orders_lead(star):
    star.run.folder.jobs.mkdir()
    star.write_job()
    job = BackfillJob.from_yaml(star.run.folder.job)
    assert {name: upstream.location for name, upstream in job.upstreams.items()} == star.tables
    assert (job.upstream.location, job.rate_limit) == (star.run.folder.orders, 1000)
