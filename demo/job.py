"""The job of the demo, as a user would write it."""

from __future__ import annotations

from demo.places import Places, Size

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


def write_job(places: Places, size: Size) -> None:
    """Write the job's YAML file."""
    query = "\n".join(f"  {line}" for line in QUERY.strip().splitlines())
    text = _JOB.format(
        orders=_quoted(places.orders), view=_quoted(places.view), query=query, rate_limit=size.rate_limit
    )
    places.job.write_text(text, encoding="utf-8")


def _quoted(path: object) -> str:
    return "'" + str(path).replace("'", "''") + "'"
