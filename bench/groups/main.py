"""
Views of groups against computing the whole view again: ``make bench ARGS=groups``.

Upstreams of three sizes change between two epochs. Then each view is brought up to date by an epoch, and its result is
computed again by one statement, in turns and in one warm session. In the end all views must equal the computed tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console

from bench.figures import LARGE, MEDIUM, SMALL
from bench.groups.results import ARRANGED, TARGETS
from bench.groups.views import view_of
from bench.kept_view import KeptView
from bench.race import CHANGES, ROUNDS, SIZES, WARM_UP, Race, is_contestant, is_workload, race, report
from bench.sales import Sales

GROUPED = ("fold", "slice", "latest")
KINDS = {SMALL: GROUPED, MEDIUM: ("row", *GROUPED, "fold, auto"), LARGE: GROUPED}
"""The views by the size of their upstream."""

SALES_PER_PRODUCT = 10
ARRANGED_EPOCHS = 20
ARRANGEMENT, PIPELINES = "arrangement", "pipelines"
"""The parts beside the sizes; they take part as workloads. The pipelines need the largest upstream's fold."""

_WARM_UP_ROWS = 200_000


def main(console: Console) -> None:
    """Measure everything, and report."""
    with race(console) as running:
        _warm_up(running)
        if is_workload(ARRANGEMENT):
            _arranged(running)
        loaded = list(_loaded(running))
        _followed(running, loaded)
        if is_workload(PIPELINES):
            running.pipelines(next(view for size, _, view in loaded if (size, view.kind) == (LARGE, "fold")), LARGE)
    report(console, "groups", running.figures, TARGETS, GROUPED)


def _sales(running: Race, name: str, rows: int) -> Sales:
    """Make an upstream."""
    sales = Sales(running.folder / name / "sales", rows, {"product_id": rows // SALES_PER_PRODUCT})
    running.console.print(f"making {rows:,} sales …")
    sales.make(running.spark)
    return sales


def _warm_up(running: Race) -> None:
    """Let the session do everything once that is measured."""
    sales = _sales(running, "warm_up", _WARM_UP_ROWS)
    for number, kind in enumerate(filter(is_contestant, KINDS[MEDIUM]), 1):
        view = view_of(kind, sales.path)
        running.load(view, WARM_UP)
        sales.change(running.spark, 200, number)
        running.follow(view, WARM_UP, 0)


def _arranged(running: Race) -> None:
    """Read the history of groups, and that of rows, in twenty epochs each from a sorted copy."""
    rows = SIZES[MEDIUM]
    sales = _sales(running, "arranged", rows)
    for kind in ("row", "fold"):
        view = view_of(kind, sales.path, strategy="arrangement", rate_limit=rows * 21 // (20 * ARRANGED_EPOCHS))
        view.folder.mkdir()
        running.note(ARRANGED, MEDIUM, kind, sum(view.load(running.engine)))
        view.compute(running.spark)
        view.require_equal(running.spark)


def _loaded(running: Race) -> Iterator[tuple[str, Sales, KeptView]]:
    for size, rows in SIZES.items():
        kinds = [*filter(is_contestant, KINDS[size])] if is_workload(size) else []
        if not kinds:
            continue
        sales = _sales(running, size, rows)
        for kind in kinds:
            view = view_of(kind, sales.path)
            running.load(view, size)
            yield size, sales, view


def _followed(running: Race, loaded: Sequence[tuple[str, Sales, KeptView]]) -> None:
    """Change the upstreams, and let all views follow; the first round warms up and does not count."""
    upstreams = {size: sales for size, sales, _ in loaded}
    for number in range(ROUNDS + 1):
        for size, sales in upstreams.items():
            sales.change(running.spark, CHANGES[size], number + 1)
        for size, _, view in loaded:
            running.follow(view, size, number)
    running.require_equal([view for _, _, view in loaded])
