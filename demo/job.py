"""The jobs of a demo, as a user would write them."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from demo.folder import DemoFolder
from demo.orders import KEY

NAME = "active_orders"

QUERY = """\
SELECT region, order_id, customer_id, upper(country) AS country,
       CAST(amount * (1 - coalesce(discount, 0)) * 100 AS BIGINT) AS cents,
       status, express, hex(receipt) AS receipt, due_on, date(ordered_at) AS ordered_on, notes
FROM upstream
WHERE status IN ('open', 'paid', 'shipped')
"""

TOTALS = """\
SELECT ordered_on, country, count(*) AS orders, sum(cents) AS cents, max(order_id) AS newest_order
FROM upstream
GROUP BY ordered_on, country
"""

_JOB = """\
# A materialized view of the orders that are under way. `airflow-backfill plan` shows what it costs.
name: {name}
upstream:
{upstream}
materialized_view: {view}
query: |
{query}
rate_limit: {rate_limit} # snapshot rows per epoch
"""

_TOTALS_JOB = """\
# Totals over that view. An epoch computes again only the groups whose orders changed.
name: live_totals
upstream:
  path: {rows}
  key: [{key}]
materialized_view: {view}
query: |
{query}
strategy: snapshot
"""


@dataclass(frozen=True, slots=True)
class DemoJob:
    """
    A job of a demo, whose file is written.

    :param file: its definition.
    :param view: the location of its view.
    :param over_orders: what its view has to equal, as a query over the demo's orders.
    """

    file: Path
    view: str
    over_orders: str


def write_job(folder: DemoFolder, upstream: str, rate_limit: int, query: str = QUERY) -> None:
    """
    Write the YAML file of the demo's job.

    :param upstream: the fields of the upstream, as YAML.
    :param rate_limit: snapshot rows per epoch.
    :param query: the view's query.
    """
    text = _JOB.format(
        name=NAME,
        upstream=textwrap.indent(upstream, "  "),
        view=quoted(folder.view),
        query=textwrap.indent(query.strip(), "  "),
        rate_limit=rate_limit,
    )
    folder.jobs.mkdir(exist_ok=True)
    folder.job.write_text(text, encoding="utf-8")


def write_totals_job(folder: DemoFolder, rows_query: str, query: str, key: Sequence[str] = KEY) -> DemoJob:
    """
    Write the YAML file of a job of groups over the view of the demo's job.

    :param rows_query: the query of that view.
    :param query: the query of the totals.
    :param key: the key of that view.
    """
    view = folder.table("live_totals")
    text = _TOTALS_JOB.format(
        rows=quoted(folder.view), key=", ".join(key), view=quoted(view), query=textwrap.indent(query.strip(), "  ")
    )
    folder.totals_job.write_text(text, encoding="utf-8")
    return DemoJob(folder.totals_job, view, query.replace("FROM upstream", f"FROM (\n{rows_query})"))


def quoted(path: object) -> str:
    """Return a path as YAML."""
    return "'" + str(path).replace("'", "''") + "'"
