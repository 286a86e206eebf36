"""The targets for the figures of all runs."""

from __future__ import annotations

from bench.target import Target, seconds_against

BACKFILL, BACKFILL_OF_BYTES = "backfill, exact JSON", "backfill, JSON in the query"
STREAM, COPY = "Structured Streaming, AvailableNow", "plain read and write"

TARGETS = tuple(
    Target(f"source {ours} against {other}", bound, "times", "source", seconds_against(ours, other))
    for ours in (BACKFILL, BACKFILL_OF_BYTES)
    for other, bound in ((STREAM, 1.0), (COPY, 1.5))
)
