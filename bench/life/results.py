"""The targets for the ratios of the figures."""

from __future__ import annotations

from bench.figures import COMPUTED_FIRST, EPOCH, FIRST_LOAD, LARGE, median, ratio
from bench.target import Target

ADOPTED, CHANGED, ASKED = "adopted", "changed", "asked"
"""What is done with a view, beside first loads and epochs."""

ROW, ADDED, FILTERED, LATEST, HISTORY = "rows", "a column added", "1 % of the rows leave", "latest", "history"
"""The views."""

TARGETS = (
    Target(
        f"adopting an equal table of {LARGE}, all vnodes compared, against one CREATE TABLE AS SELECT",
        1.0,
        "times",
        "life",
        ratio((ADOPTED, LARGE, ROW), (COMPUTED_FIRST, LARGE, ROW)),
    ),
    *(
        Target(
            f"{kind} at {LARGE}, against a rebuild under snapshot",
            bound,
            "times",
            "life",
            ratio((CHANGED, LARGE, kind), (FIRST_LOAD, LARGE, kind)),
        )
        for kind, bound in ((ADDED, 0.6), (FILTERED, 0.3))
    ),
    Target(
        f"an epoch of a view that keeps history at {LARGE}, 0.1 % changed, against one that does not",
        1.3,
        "times",
        "life",
        ratio((EPOCH, LARGE, HISTORY), (EPOCH, LARGE, LATEST)),
    ),
    Target(
        f"why of a key under no_shuffle at {LARGE}, without Spark",
        1.0,
        "s",
        "life",
        lambda results: median(results, ASKED, LARGE, ROW),
    ),
)
