"""The targets for the ratios of the figures."""

from __future__ import annotations

from typing import Any

from bench.figures import (
    COMPUTED_FIRST,
    EPOCH,
    FIRST_LOAD,
    LARGE,
    MEDIUM,
    PIPELINE,
    SMALL,
    median,
    of_computing,
    ratio,
)
from bench.target import Target

ARRANGED = "first load from an arrangement"


def _beyond_rows(results: Any) -> float:
    return median(results, EPOCH, MEDIUM, "fold") - median(results, EPOCH, MEDIUM, "row")


TARGETS = (
    *(
        Target(
            f"{kind} epoch at {size}, 0.1 % changed, against computing all",
            bound,
            "times",
            "groups",
            of_computing(size, kind),
            limit=limit,
        )
        for size, kind, bound, limit in (
            (LARGE, "fold", 0.35, 0.6),
            (LARGE, "slice", 0.5, 0.8),
            (LARGE, "latest", 0.5, 0.8),
            (MEDIUM, "slice", 1.0, 1.5),
            (MEDIUM, "latest", 1.0, 1.5),
            (MEDIUM, "fold", 1.5, 2.0),
            (MEDIUM, "fold, auto", 1.5, 2.0),
        )
    ),
    Target(
        "fold epoch at 16 times the sales, as many changes",
        1.25,
        "times",
        "groups",
        ratio((EPOCH, LARGE, "fold"), (EPOCH, SMALL, "fold")),
        limit=1.6,
    ),
    *(
        Target(
            f"first load of {kind} at {LARGE}, whole, against computing all",
            1.3,
            "times",
            "groups",
            ratio((FIRST_LOAD, LARGE, kind), (COMPUTED_FIRST, LARGE, kind)),
            limit=1.6,
        )
        for kind in ("fold", "slice")
    ),
    Target(
        "first load of groups in 20 epochs of an arrangement, against that of rows",
        1.2,
        "times",
        "groups",
        ratio((ARRANGED, MEDIUM, "fold"), (ARRANGED, MEDIUM, "row")),
        limit=1.5,
    ),
    Target("fold epoch beyond one of rows with the same changes", 1.0, "s", "groups", _beyond_rows, limit=2.0),
    Target(
        "fold epoch at all sales, against a refresh by Spark Declarative Pipelines",
        2.0,
        "times faster",
        "groups",
        ratio((PIPELINE, LARGE, "fold"), (EPOCH, LARGE, "fold")),
        at_least=True,
        limit=1.3,
    ),
)
