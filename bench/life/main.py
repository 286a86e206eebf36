"""
The life of a view against making it anew: ``make bench ARGS=life``.

In one warm session, an equal table becomes a view, finished views get another column and another filter, and a view
that keeps history follows the same changes as one that does not. In the end all views must equal computed tables.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

from airflow_backfill_provider import protocol
from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.jobs import changed_query
from airflow_backfill_provider.jobs.backfill import Backfill
from airflow_backfill_provider.jobs.row_questions import why
from bench.figures import COMPUTED_FIRST, EPOCH, FIRST_LOAD, LARGE
from bench.kept_view import KeptView, start
from bench.life.results import (
    ADDED,
    ADOPTED,
    ASKED,
    CHANGED,
    FILTERED,
    HISTORY,
    LATEST,
    ROW,
    TARGETS,
)
from bench.measuring import REQUESTER
from bench.race import CHANGES, ROUNDS, SIZES, WARM_UP, Race, counted, race, report
from bench.sales import Sales

_ROWS = "SELECT sale_id, product_id, amount FROM upstream"
_WIDER = "SELECT sale_id, product_id, amount, sold_at FROM upstream"
_FEWER = f"{_ROWS} WHERE pmod(sale_id, 100) <> 0"
_CURRENT = "_is_current"

_WARM_UP_ROWS = 200_000


def main(console: Console) -> None:
    """Measure everything, and report."""
    with race(console) as running:
        for size, rows in ((WARM_UP, _WARM_UP_ROWS), (LARGE, SIZES[LARGE])):
            sales = Sales(running.folder / size / "sales", rows, {"product_id": rows // 10})
            console.print(f"making {rows:,} sales …")
            sales.make(running.spark)
            _adopt(running, size, sales)
            for kind, latter in ((ADDED, _WIDER), (FILTERED, _FEWER)):
                _change(running, size, sales, kind, latter)
            _ask(running, size, sales)
            _keep(running, size, sales)
    report(console, "life", running.figures, TARGETS, ())


def _view(sales: Sales, name: str, query: str, **fields: Any) -> KeptView:
    folder = sales.path.parent / name.replace(" ", "_").replace("%", "")
    folder.mkdir(exist_ok=True)
    job = BackfillJob(
        name=folder.name,
        upstream={"path": str(sales.path), "key": ["sale_id"]},
        materialized_view=str(folder / "view"),
        state=str(folder / "state"),
        query=query,
        table_properties={"delta.enableDeletionVectors": "true"},
        **fields,
    )
    return KeptView(name, (job,), query.replace("FROM upstream", f"FROM delta.`{sales.path}`"), folder)


def _adopt(running: Race, size: str, sales: Sales) -> None:
    """Let a table that one statement made become the view where it is."""
    made = _view(sales, ROW, _ROWS)
    running.note(COMPUTED_FIRST, size, ROW, made.compute(running.spark))
    running.note(COMPUTED_FIRST, size, ROW, made.compute(running.spark))
    nightly = str(made.computed)
    adopting = _view(
        sales,
        "adopted",
        _ROWS,
        backfill_from={"path": nightly},
        as_of=Backfill(made.jobs[0]).upstream.latest().number,
    )
    job = adopting.jobs[0].model_copy(update={"materialized_view": nightly})
    running.note(ADOPTED, size, ROW, _timed(lambda: start(job, running.engine)))


def _change(running: Race, size: str, sales: Sales, kind: str, latter: str) -> None:
    """Change the query of a finished view, and load a view of the latter one from the beginning."""
    anew = _view(sales, f"{kind} anew", latter)
    running.note(FIRST_LOAD, size, kind, sum(anew.load(running.engine)))
    former = _view(sales, kind, _ROWS)
    former.load(running.engine)
    _finish(former.jobs[0])
    changed = _view(sales, kind, latter)

    def change() -> None:
        start(changed.jobs[0], running.engine, changed_query.change_query)
        changed.run_epochs(running.engine)

    running.note(CHANGED, size, kind, _timed(change))
    _require_equal(running, changed)


def _ask(running: Race, size: str, sales: Sales) -> None:
    """Ask why a view that is read in order of the key has rows."""
    view = _view(sales, "ordered", _ROWS, strategy="no_shuffle", rate_limit=sales.rows // 4)
    view.load(running.engine)
    for number in range(ROUNDS):
        key = sales.rows * (number + 1) // (ROUNDS + 1)
        running.note(ASKED, size, ROW, _timed(lambda: why(Backfill(view.jobs[0]), key)))  # noqa: B023 - runs at once


def _keep(running: Race, size: str, sales: Sales) -> None:
    """Let two views follow, of which one keeps former rows."""
    latest, history = _view(sales, LATEST, _ROWS), _view(sales, HISTORY, _ROWS, keep="history")
    for view in (latest, history):
        view.load(running.engine)
    for number in range(ROUNDS + 1):
        sales.change(running.spark, CHANGES[LARGE] * sales.rows // SIZES[LARGE], number + 1)
        for view in (latest, history) if number % 2 else (history, latest):
            running.note(counted(EPOCH, number), size, view.kind, sum(view.run_epochs(running.engine)))
    _require_equal(running, latest)
    _require_equal(running, history)


def _finish(job: BackfillJob) -> None:
    protocol.finish_job(store=Backfill(job).store, requested_by=str(REQUESTER))


def _require_equal(running: Race, view: KeptView) -> None:
    """Compare a view with what one statement computes; former rows do not count."""
    view.compute(running.spark)
    current = running.spark.read.format("delta").load(view.location)
    if _CURRENT in current.columns:
        location = Path(view.folder, "current")
        current.filter(_CURRENT).write.format("delta").save(str(location))
        view = replace(view, jobs=(view.jobs[0].model_copy(update={"materialized_view": str(location)}),))
    view.require_equal(running.spark)


def _timed(action: Callable[[], object]) -> float:
    started = time.perf_counter()
    action()
    return time.perf_counter() - started
