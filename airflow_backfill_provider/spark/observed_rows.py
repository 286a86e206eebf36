"""Counts rows while Spark writes them, so that they are read once."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from pyspark.sql import Column, DataFrame, Observation

_PATIENCE_SECONDS = 30
"""Spark reports metrics a moment after a write. If another process was faster and Delta skips it, never."""


class ObservedRows:
    """
    Rows with metrics that are computed when the rows are written for the first time.

    :param rows: the rows.
    :param metrics: name → an aggregate.
    """

    def __init__(self, rows: DataFrame, metrics: Mapping[str, Column]) -> None:
        self._observation = Observation()
        self.rows = rows.observe(self._observation, *(metric.alias(name) for name, metric in metrics.items()))

    def result(self) -> dict[str, Any] | None:
        """Return the metrics, after a write that may have taken place; ``None`` if it did not."""
        found: list[dict[str, Any]] = []
        waiting = threading.Thread(target=lambda: found.append(self._observation.get), daemon=True)
        waiting.start()
        waiting.join(_PATIENCE_SECONDS)
        # A remote session returns an empty result instead of waiting.
        return found[0] if found and found[0] else None
