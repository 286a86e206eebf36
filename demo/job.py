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

CHANGED_QUERY = QUERY.replace(", notes\n", ", notes, items\n")
"""The same with another column."""

TOTALS = """\
SELECT ordered_on, country, count(*) AS orders, sum(cents) AS cents, max(order_id) AS newest_order
FROM upstream
GROUP BY ordered_on, country
"""

_JOB = """\
# A materialized view of the orders that are under way. `airflow-backfill plan` shows what it costs.
name: {name}
{upstreams}
materialized_view: {view}
query: |
{query}
rate_limit: {rate_limit} # snapshot rows per epoch
"""

_TOTALS_JOB = """\
# Totals over that view. An epoch computes again only the groups whose orders changed.
name: {name}
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
    write_job_over(folder, f"upstream:\n{textwrap.indent(upstream, '  ')}", rate_limit, query)


def write_job_over(folder: DemoFolder, upstreams: str, rate_limit: int, query: str) -> None:
    """
    Write the YAML file of the demo's job, over one upstream or several.

    :param upstreams: the field ``upstream`` or ``upstreams``, as YAML.
    :param rate_limit: snapshot rows of the one that leads per epoch.
    :param query: the view's query.
    """
    text = _JOB.format(
        name=NAME,
        upstreams=upstreams,
        view=quoted(folder.view),
        query=_indented(query),
        rate_limit=rate_limit,
    )
    folder.jobs.mkdir(exist_ok=True)
    folder.job.write_text(text, encoding="utf-8")


def write_changed_job(file: Path, former: str, latter: str) -> None:
    """
    Write another query into a job's file, which shall go live only when somebody has approved it.

    :param file: the job's file.
    :param former: the query that it has.
    """
    text = file.read_text(encoding="utf-8")
    changed = text.replace(_indented(former), _indented(latter))
    file.write_text(f"{changed}cut_over: on_approval # a changed query waits until somebody has seen the difference\n")


def write_totals_job(folder: DemoFolder, name: str, rows_query: str, query: str, key: Sequence[str] = KEY) -> DemoJob:
    """
    Write the YAML file of a job of groups over the view of the demo's job.

    :param name: the job's name.
    :param rows_query: the query of that view.
    :param query: the query of the totals.
    :param key: the key of that view.
    """
    view, file = folder.table(name), folder.jobs / f"{name}.yaml"
    text = _TOTALS_JOB.format(
        name=name,
        rows=quoted(folder.view),
        key=", ".join(key),
        view=quoted(view),
        query=_indented(query),
    )
    file.write_text(text, encoding="utf-8")
    return DemoJob(file, view, query.replace("FROM upstream", f"FROM (\n{rows_query})"))


def _indented(query: str) -> str:
    return textwrap.indent(query.strip(), "  ")


def quoted(path: object) -> str:
    """Return a path as YAML."""
    return "'" + str(path).replace("'", "''") + "'"
