"""The views of groups, and one of rows beside them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from airflow_backfill_provider.core.job.definition import BackfillJob
from bench.kept_view import KeptView

FOLD = (
    "SELECT product_id, count(*) AS sales, sum(amount) AS total, avg(amount) AS mean FROM upstream GROUP BY product_id"
)
SLICE = (
    "SELECT product_id, min(amount) AS least, max(amount) AS most, percentile(amount, 0.5) AS median FROM upstream "
    "GROUP BY product_id"
)
LATEST = (
    "SELECT product_id, sale_id, amount, sold_at FROM upstream QUALIFY row_number() OVER (PARTITION BY product_id "
    "ORDER BY sold_at DESC, sale_id DESC) = 1"
)
ROW = "SELECT sale_id, product_id, amount FROM upstream"

QUERIES = {"fold": FOLD, "slice": SLICE, "latest": LATEST, "row": ROW, "fold, auto": FOLD}

FIELDS: Mapping[str, dict[str, Any]] = {"fold, auto": {"refresh": "auto"}}
"""Further fields of the jobs of a kind."""


def view_of(kind: str, upstream: Path, **fields: Any) -> KeptView:
    """
    Return a view.

    :param kind: the name of its query.
    :param upstream: the path of the sales; the view lies beside them.
    :param fields: further fields of the job.
    """
    folder = upstream.parent / kind
    job = BackfillJob(
        name=re.sub(r"\W+", "_", kind),
        upstream={"path": str(upstream), "key": ["sale_id"]},
        materialized_view=str(folder / "view"),
        query=QUERIES[kind],
        state=str(folder / "state"),
        table_properties={"delta.enableDeletionVectors": "true"},
        **FIELDS.get(kind, {}),
        **fields,
    )
    return KeptView(kind, (job,), QUERIES[kind].replace("FROM upstream", f"FROM delta.`{upstream}`"), folder)
