"""Several jobs over the orders in a Delta table, for the playground."""

from __future__ import annotations

from pathlib import Path

from demo.delta.upstream import delta_upstream
from demo.folder import DemoFolder, Size
from demo.job import quoted, write_job

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


def write_jobs(folder: DemoFolder, size: Size) -> dict[Path, str]:
    """Write the YAML files of several jobs; return each file with what it shows."""
    rate_limit = max(size.rows // 10, 1)
    write_job(folder, delta_upstream(folder.orders), rate_limit)
    with folder.job.open("a", encoding="utf-8") as job:
        job.write(_DEMO_FIELDS)
    express = _EXPRESS.format(active=quoted(folder.view), view=quoted(folder.table("express_orders")))
    folder.next_job.write_text(express, encoding="utf-8")
    customers = folder.jobs / "customer_orders.yaml"
    customers.write_text(
        _CUSTOMERS.format(
            orders=quoted(folder.orders),
            view=quoted(folder.table("customer_orders")),
            rate_limit=rate_limit,
        ),
        encoding="utf-8",
    )
    return {
        folder.job: "history in key order",
        folder.next_job: "a view on that view",
        customers: "the arrangement: every customer's vnode completes on its own",
    }
