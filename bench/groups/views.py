"""The views, and the two ways to bring one up to date."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from airflow_backfill_provider import protocol
from airflow_backfill_provider.core.epoch.engine import Engine
from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.jobs import creation
from airflow_backfill_provider.jobs.backfill import Backfill
from bench.measuring import REQUESTER

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

FIELDS: dict[str, dict[str, Any]] = {"fold, auto": {"refresh": "auto"}}
"""Further fields of the jobs of a kind."""


@dataclass(frozen=True, slots=True)
class View:
    """
    A view that epochs keep, and a table that one statement makes anew.

    :param kind: the name of its query.
    :param upstream: the path of the sales.
    :param folder: for the view, the table and the state.
    :param fields: further fields of the job.
    """

    kind: str
    upstream: Path
    folder: Path
    fields: dict[str, Any] = field(default_factory=dict)

    @property
    def backfill(self) -> Backfill:
        """The job."""
        return Backfill(
            BackfillJob(
                name=re.sub(r"\W+", "_", self.kind),
                upstream={"path": str(self.upstream), "key": ["sale_id"]},
                materialized_view=str(self.folder / "view"),
                query=QUERIES[self.kind],
                state=str(self.folder / "state"),
                table_properties={"delta.enableDeletionVectors": "true"},
                **FIELDS.get(self.kind, {}),
                **self.fields,
            )
        )

    def create(self, engine: Engine) -> None:
        """Create the job."""
        backfill = self.backfill
        creation.create_job(
            backfill.job,
            store=backfill.store,
            upstream=backfill.upstream,
            engine=lambda: engine,
            requested_by=str(REQUESTER),
        )

    def run_epochs(self, engine: Engine) -> list[float]:
        """Run epochs until there is nothing to do; return the seconds of each, with its injection."""
        backfill = self.backfill
        seconds: list[float] = []
        while True:
            started = time.perf_counter()
            barrier = protocol.inject_barrier(
                store=backfill.store, upstream=backfill.upstream, requester=REQUESTER
            ).barrier
            if barrier is None:
                return seconds
            protocol.run_epoch(barrier, store=backfill.store, engine=engine)
            seconds.append(time.perf_counter() - started)

    def compute(self, spark: SparkSession) -> float:
        """Compute the whole result again, as a table of its own; return the seconds."""
        query = QUERIES[self.kind].replace("FROM upstream", f"FROM delta.`{self.upstream}`")
        started = time.perf_counter()
        spark.sql(f"CREATE OR REPLACE TABLE delta.`{self.folder / 'computed'}` USING delta AS {query}")
        return time.perf_counter() - started

    def require_equal(self, spark: SparkSession) -> None:
        """
        Compare the view with the computed table.

        :raises AssertionError: if they differ.
        """
        computed = spark.read.format("delta").load(str(self.folder / "computed"))
        view = spark.read.format("delta").load(str(self.folder / "view")).select(*computed.columns)
        differing = view.exceptAll(computed).count() + computed.exceptAll(view).count()
        assert not differing, f"{self.folder.name}: {differing:,} rows differ"
