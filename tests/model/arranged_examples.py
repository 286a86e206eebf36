"""Small backfills with a position for each vnode, in the middle of their work."""

from __future__ import annotations

from tests.model.arranged_runs import ArrangedRun
from tests.model.truth import Phase, Progress, Query, everything
from tests.strategies import (
    Barrier,
    KeyColumn,
    Row,
    Scenario,
    Update,
)

ID = (KeyColumn("id"),)


def table(*amounts: int, status: str = "paid") -> tuple[Row, ...]:
    """Rows 1, 2, … with the given amounts, which are their vnodes by amount."""
    return tuple(Row((id_,), status, amount) for id_, amount in enumerate(amounts, 1))


def moved(id_: int, amount: int) -> Update:
    return Update((id_,), Row((id_,), "paid", amount))


def at(key: int | None) -> Progress:
    return Progress(Phase.IN_PROGRESS, (key,))


def begun(*amounts: int, rate_limit: int | None = None, parallelism: int = 1, query: Query = everything) -> ArrangedRun:
    """A backfill over some rows; its arrangement is made, and one epoch has read with the rate limit."""
    run = ArrangedRun(Scenario(ID, table(*amounts), ()), query)
    run.rescale(parallelism)
    run.run(Barrier(rate_limit=0))
    if rate_limit is not None:
        run.run(Barrier(rate_limit))
    return run


def ids(run: ArrangedRun) -> list[int]:
    return sorted(int(str(key[0])) for key in run.world.view.rows())
