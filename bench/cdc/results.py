"""What a run is, and the targets for the figures of all runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bench.target import Target, seconds_against

BACKFILL = "backfill, warm"
COPY = "COPY into a Delta table"
SNAPSHOT, SNAPSHOT_OF_LARGE_CHUNKS = "incremental snapshot, events only", "the same with large chunks"
SNAPSHOT_WITH_VIEW = "incremental snapshot, large chunks, with its view"

CHUNK_ROWS = {SNAPSHOT: 1024, SNAPSHOT_OF_LARGE_CHUNKS: 10 * 1024, SNAPSHOT_WITH_VIEW: 10 * 1024}
"""Rows of a snapshot's chunk: Debezium's default, and ten times that, because each chunk has a fixed cost."""

CONTESTANTS = (BACKFILL, COPY, SNAPSHOT, SNAPSHOT_OF_LARGE_CHUNKS, SNAPSHOT_WITH_VIEW)


@dataclass(frozen=True, slots=True)
class Run:
    """
    One run of a contestant.

    :param stages: the seconds of a backfill's stages, by epoch.
    :param longest_transaction: for how many seconds a transaction of a backfill was open at most.
    """

    contestant: str
    seconds: float
    stages: tuple[Mapping[str, float], ...] = ()
    longest_transaction: float = 0.0


def _longest_transaction(results: Any) -> float:
    """Return the longest transaction, as a share of the longest reading of a chunk in the same run."""
    shares = (
        run["longest_transaction"] / max(stages.get("read_ahead", 0.0) for stages in run["stages"])
        for run in results["runs"]
        if run["contestant"] == BACKFILL
    )
    return float(max(shares))


TARGETS = (
    Target("cdc backfill against COPY", 2.0, "times", "cdc", seconds_against(BACKFILL, COPY)),
    Target(
        "cdc backfill against an incremental snapshot with its view",
        3,
        "times faster",
        "cdc",
        seconds_against(SNAPSHOT_WITH_VIEW, BACKFILL),
        at_least=True,
    ),
    Target("rows read of the database per row", 1.1, "rows", "cdc", lambda results: results["load"]["rows"]),
    Target("pages read of the database per page", 1.1, "pages", "cdc", lambda results: results["load"]["pages"]),
    Target("longest transaction per reading of a chunk", 1, "times", "cdc", _longest_transaction),
)
