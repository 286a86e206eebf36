"""The job of the demo, as a user would write it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from demo.folder import DemoFolder, Size

QUERY = """\
SELECT region, order_id, customer_id, upper(country) AS country,
       CAST(amount * (1 - coalesce(discount, 0)) * 100 AS BIGINT) AS cents,
       status, express, hex(receipt) AS receipt, due_on, date(ordered_at) AS ordered_on, notes
FROM upstream
WHERE status IN ('open', 'paid', 'shipped')
"""

_JOB = """\
# A materialized view of the orders that are under way. `airflow-backfill plan` shows what it costs.
name: active_orders
upstream:
  path: {orders}
  key: [region, order_id]
materialized_view: {view}
query: |
{query}
rate_limit: {rate_limit} # snapshot rows per epoch
"""

_DEMO_FIELDS = """\
strategy: no_shuffle # auto would choose by how much the writer has mixed the keys of the files
table_properties:
  delta.enableChangeDataFeed: "true" # express_orders is a view on this one
"""

_EXPRESS = """\
# A view on another view.
name: express_orders
upstream:
  path: {active}
  key: [region, order_id]
materialized_view: {view}
query: SELECT region, order_id, cents FROM upstream WHERE express
"""

_CUSTOMERS = """\
# The orders by customer. A customer's orders are complete once the customer's vnode is.
name: customer_orders
upstream:
  path: {orders}
  key: [region, order_id]
  distribution_key: [customer_id]
materialized_view: {view}
query: SELECT region, order_id, customer_id, amount, status FROM upstream
strategy: arrangement
rate_limit: {rate_limit} # snapshot rows per epoch
"""


def write_job(folder: DemoFolder, size: Size) -> None:
    """Write the YAML file of the demo's job."""
    query = "\n".join(f"  {line}" for line in QUERY.strip().splitlines())
    text = _JOB.format(
        orders=_quoted(folder.orders), view=_quoted(folder.view), query=query, rate_limit=size.rate_limit
    )
    folder.jobs.mkdir(exist_ok=True)
    folder.job.write_text(text, encoding="utf-8")


def write_jobs(folder: DemoFolder, size: Size) -> dict[Path, str]:
    """Write the YAML files of several jobs; return each file with what it shows."""
    small = replace(size, rate_limit=max(size.rows // 10, 1))
    write_job(folder, small)
    with folder.job.open("a", encoding="utf-8") as job:
        job.write(_DEMO_FIELDS)
    express = _EXPRESS.format(active=_quoted(folder.view), view=_quoted(folder.view.with_name("express_orders")))
    folder.next_job.write_text(express, encoding="utf-8")
    customers = folder.jobs / "customer_orders.yaml"
    customers.write_text(
        _CUSTOMERS.format(
            orders=_quoted(folder.orders),
            view=_quoted(folder.view.with_name("customer_orders")),
            rate_limit=small.rate_limit,
        ),
        encoding="utf-8",
    )
    return {
        folder.job: "history in key order",
        folder.next_job: "a view on that view",
        customers: "the arrangement: every customer's vnode completes on its own",
    }


def _quoted(path: object) -> str:
    return "'" + str(path).replace("'", "''") + "'"
