"""
Views over several upstreams against computing the whole view again: ``make bench ARGS=joins``.

The sales of a star change between two epochs, and in further rounds its customers. Then each view is brought up to date
by an epoch, and its result is computed again by one statement, in turns and in one warm session. In the end all views
must equal the computed tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from rich.console import Console

from bench.figures import LARGE, MEDIUM, SMALL
from bench.joins.results import RUNS, TARGETS
from bench.joins.star import Star
from bench.joins.views import CHAIN, CHANGED_DIMENSION, JOIN, REVENUE, STAR, view_of
from bench.kept_view import KeptView
from bench.race import CHANGES, ROUNDS, SIZES, WARM_UP, Race, is_contestant, race, report

KINDS = {SMALL: (JOIN,), MEDIUM: (JOIN,), LARGE: (JOIN, STAR, REVENUE, CHAIN)}
"""The views by the size of their star; those of the smaller ones tell what a row and a change cost."""

_WARM_UP_ROWS = 200_000


def main(console: Console) -> None:
    """Measure everything, and report."""
    with race(console) as running:
        _warm_up(running)
        loaded = list(_loaded(running))
        _followed(running, loaded)
        if is_contestant(CHANGED_DIMENSION):
            _customers_followed(running, loaded)
        views = [view for _, _, view in loaded]
        for view in views:
            view.run_epochs(running.engine)
        running.require_equal(views)
        if is_contestant(STAR):
            running.pipelines(next(view for view in views if view.kind == STAR), LARGE)
    report(console, "joins", running.figures, TARGETS, (JOIN,))


def _star(running: Race, name: str, rows: int) -> Star:
    """Make the tables of a star."""
    star = Star(running.folder / name, rows)
    running.console.print(f"making {rows:,} sales, and what they name …")
    star.make(running.spark)
    return star


def _warm_up(running: Race) -> None:
    """Let the session do everything once that is measured."""
    star = _star(running, "warm_up", _WARM_UP_ROWS)
    for number, kind in enumerate(filter(is_contestant, KINDS[LARGE]), 1):
        view = view_of(kind, star)
        running.load(view, WARM_UP)
        star.sales.change(running.spark, 200, number)
        running.follow(view, WARM_UP, 0)


def _loaded(running: Race) -> Iterator[tuple[str, Star, KeptView]]:
    for size, rows in SIZES.items():
        kinds = [*filter(is_contestant, KINDS[size])]
        if not kinds:
            continue
        star = _star(running, size, rows)
        for kind in kinds:
            # The last run of ten is smaller, rather than an eleventh one.
            limit = {"rate_limit": rows * 21 // (20 * RUNS)} if kind == JOIN else {}
            view = view_of(kind, star, **limit)
            running.load(view, size)
            yield size, star, view


def _followed(running: Race, loaded: Sequence[tuple[str, Star, KeptView]]) -> None:
    """Change the sales, and let all views follow; the first round warms up and does not count."""
    stars = {size: star for size, star, _ in loaded}
    for number in range(ROUNDS + 1):
        for size, star in stars.items():
            star.sales.change(running.spark, CHANGES[size], number + 1)
        for size, _, view in loaded:
            running.follow(view, size, number)


def _customers_followed(running: Race, loaded: Sequence[tuple[str, Star, KeptView]]) -> None:
    """Change the customers of all sales, and let the join follow; the first round does not count."""
    star, view = next((star, view) for size, star, view in loaded if (size, view.kind) == (LARGE, JOIN))
    for number in range(ROUNDS + 1):
        star.change_customers(running.spark, number)
        running.follow(replace(view, kind=CHANGED_DIMENSION), LARGE, number)
