"""The job of a demo, as a user would write it."""

from __future__ import annotations

import textwrap

from demo.folder import DemoFolder

NAME = "active_orders"

QUERY = """\
SELECT region, order_id, customer_id, upper(country) AS country,
       CAST(amount * (1 - coalesce(discount, 0)) * 100 AS BIGINT) AS cents,
       status, express, hex(receipt) AS receipt, due_on, date(ordered_at) AS ordered_on, notes
FROM upstream
WHERE status IN ('open', 'paid', 'shipped')
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


def quoted(path: object) -> str:
    """Return a path as YAML."""
    return "'" + str(path).replace("'", "''") + "'"
