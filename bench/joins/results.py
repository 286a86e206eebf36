"""The targets and limits for the ratios of the figures."""

from __future__ import annotations

from bench.figures import COMPUTED_FIRST, EPOCH, FIRST_LOAD, LARGE, PIPELINE, of_computing, ratio
from bench.joins.views import CHANGED_DIMENSION, JOIN, REVENUE, STAR
from bench.target import Target

RUNS = 10
"""The epochs that the first load of the join is cut into."""

TARGETS = (
    *(
        Target(what, bound, "times", "joins", of_computing(LARGE, kind), limit=limit)
        for what, kind, bound, limit in (
            (f"join epoch at {LARGE}, 0.1 % of them changed, against computing all", JOIN, 0.35, 0.7),
            (f"join epoch at {LARGE}, 0.1 % of the customers changed", CHANGED_DIMENSION, 0.4, 0.7),
            (f"{REVENUE}, at {LARGE}, 0.1 % of them changed", REVENUE, 0.6, 0.9),
        )
    ),
    Target(
        f"first load of the join at {LARGE} in {RUNS} runs",
        2.0,
        "times",
        "joins",
        ratio((FIRST_LOAD, LARGE, JOIN), (COMPUTED_FIRST, LARGE, JOIN)),
        limit=2.5,
    ),
    Target(
        f"star epoch at {LARGE}, 0.1 % of them changed, against a refresh by Spark Declarative Pipelines",
        2.0,
        "times faster",
        "joins",
        ratio((PIPELINE, LARGE, STAR), (EPOCH, LARGE, STAR)),
        at_least=True,
        limit=1.3,
    ),
)
