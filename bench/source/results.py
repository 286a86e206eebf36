"""The targets for the figures of all runs."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

from bench.target import Target

BACKFILL, BACKFILL_OF_BYTES = "backfill, exact JSON", "backfill, JSON in the query"
STREAM, COPY = "Structured Streaming, AvailableNow", "plain read and write"


def _against(slower: str, faster: str) -> Callable[[Any], float]:
    def seconds(results: Any, contestant: str) -> float:
        return float(statistics.median(run["seconds"] for run in results["runs"] if run["contestant"] == contestant))

    return lambda results: seconds(results, slower) / seconds(results, faster)


TARGETS = tuple(
    Target(f"source {ours} against {other}", bound, "times", "source", _against(ours, other))
    for ours in (BACKFILL, BACKFILL_OF_BYTES)
    for other, bound in ((STREAM, 1.0), (COPY, 1.5))
)
