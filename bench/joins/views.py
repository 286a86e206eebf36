"""The views over a star, and the statements that compute them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from airflow_backfill_provider.core.job.definition import BackfillJob
from bench.joins.star import Star
from bench.kept_view import KeptView

JOIN, STAR, REVENUE, CHAIN = "join", "star", "revenue by country", "revenue by country, by a chain"
"""The views: sales with their customers, those with their products as well, and sums of the former in two ways."""

CHANGED_DIMENSION = "join, customers changed"
"""The first of them in rounds in which only customers change."""

_JOIN = (
    "SELECT s.sale_id, s.amount, s.sold_at, c.name, c.country FROM {sales} AS s "
    "JOIN {customers} AS c ON c.customer_id = s.customer_id"
)
_STAR = (
    "SELECT s.sale_id, s.amount, c.name, c.country, p.name AS product, p.category FROM {sales} AS s "
    "JOIN {customers} AS c ON c.customer_id = s.customer_id JOIN {products} AS p ON p.product_id = s.product_id"
)
_COUNTRIES = (
    "SELECT s.sale_id, s.amount, c.country FROM {sales} AS s JOIN {customers} AS c ON c.customer_id = s.customer_id"
)
_REVENUE = "SELECT country, count(*) AS sales, sum(amount) AS revenue FROM {rows} GROUP BY country"
_JOINED_REVENUE = (
    "SELECT c.country, count(*) AS sales, sum(s.amount) AS revenue FROM {sales} AS s "
    "JOIN {customers} AS c ON c.customer_id = s.customer_id GROUP BY c.country"
)
_ONE_JOB = {
    JOIN: (_JOIN, ("sales", "customers")),
    STAR: (_STAR, ("sales", "customers", "products")),
    REVENUE: (_JOINED_REVENUE, ("sales", "customers")),
}
"""The queries of the views of one job, and the tables that they read."""


def view_of(kind: str, star: Star, **fields: Any) -> KeptView:
    """
    Return a view over a star.

    :param kind: the view.
    :param fields: further fields of the job that reads the star.
    """
    folder = star.folder / re.sub(r"\W+", "_", kind)
    if kind == CHAIN:
        return _chain(star, folder, fields)
    query, names = _ONE_JOB[kind]
    job = _over_star(folder.name, star, folder, query, names, fields)
    return KeptView(kind, (job,), query.format(**star.tables), folder)


def _chain(star: Star, folder: Path, fields: dict[str, Any]) -> KeptView:
    """Return the view of groups over a view of some columns of the join."""
    rows = _over_star("countries", star, folder, _COUNTRIES, ("sales", "customers"), fields)
    sums = _job(
        "revenue",
        folder,
        upstream={"path": rows.materialized_view, "key": ["sale_id"]},
        query=_REVENUE.format(rows="upstream"),
    )
    statement = _REVENUE.format(rows=f"({_COUNTRIES.format(**star.tables)})")
    return KeptView(CHAIN, (rows, sums), statement, folder)


def _over_star(
    name: str, star: Star, folder: Path, query: str, names: Sequence[str], fields: dict[str, Any]
) -> BackfillJob:
    named = {table: table for table in star.tables}
    return _job(name, folder, upstreams=star.upstreams(*names), query=query.format(**named), **fields)


def _job(name: str, folder: Path, **fields: Any) -> BackfillJob:
    return BackfillJob(
        name=name,
        materialized_view=str(folder / name),
        state=str(folder / f"{name}_state"),
        table_properties={"delta.enableDeletionVectors": "true"},
        **fields,
    )
