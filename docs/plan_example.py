"""
Run ``airflow-backfill plan`` on the two tables of ``how-to/choose-a-strategy.md``, and print its output.

``python -m docs.plan_example --write`` puts the output into the page, ``--check`` compares it with the page. It starts
no Spark.
"""

from __future__ import annotations

import io
import sys
import tempfile
from pathlib import Path

from rich.console import Console

from airflow_backfill_provider.cli.planning import show_plan
from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.jobs.backfill import Backfill
from airflow_backfill_provider.jobs.planning.plan import make_plan
from docs.generated import main

PAGES = (Path(__file__).parent / "how-to" / "choose-a-strategy.md",)
LAKE = "/tmp/lake"  # noqa: S108 - the path on the page; replaced when the example runs

TABLE = """\
import hashlib
import pyarrow as pa
from deltalake import write_deltalake

keys = [hashlib.sha256(str(n).encode()).hexdigest() for n in range(100_000)]
for path, column in ("/tmp/lake/orders_by_hash", keys), ("/tmp/lake/orders_by_key", sorted(keys)):
    for first in range(0, 100_000, 10_000):
        rows = pa.table(
            {
                "order_id": column[first : first + 10_000],
                "amount": pa.array([n % 97 for n in range(10_000)], pa.int32()),
                "note": [""] * 10_000,
            }
        )
        write_deltalake(path, rows, mode="append", configuration={"delta.enableChangeDataFeed": "true"})
"""
JOB = """\
name: order_cents
upstream:
  path: /tmp/lake/orders_by_hash
  key: [order_id]
materialized_view: /tmp/lake/order_cents
query: SELECT order_id, amount * 100 AS cents FROM upstream
rate_limit: 10000
"""


def make() -> dict[str, str]:
    """Make the tables in a temporary folder, plan the job over each, and return the page's blocks."""
    with tempfile.TemporaryDirectory() as folder:
        exec(TABLE.replace(LAKE, folder), {})  # noqa: S102 - the code above, as it is on the page
        return {
            "table": f"```python\n{TABLE}```\n",
            "job": f"```yaml\n{JOB}```\n",
            "plan random": _plan(folder, JOB),
            "plan ordered": _plan(folder, JOB.replace("/orders_by_hash\n", "/orders_by_key\n")),
        }


def _plan(folder: str, definition: str) -> str:
    job = Path(folder, "order_cents.yaml")
    job.write_text(definition.replace(LAKE, folder), encoding="utf-8")
    output = io.StringIO()
    show_plan(make_plan(Backfill(BackfillJob.from_yaml(job))), Console(file=output, width=120, soft_wrap=True))
    lines = (line.rstrip() for line in output.getvalue().splitlines())
    return "```text\n" + "".join(f"{line}\n" for line in lines) + "```\n"


if __name__ == "__main__":
    sys.exit(main(PAGES, make()))
