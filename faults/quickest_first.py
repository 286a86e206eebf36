"""
A plugin of pytest for mutation testing: the quickest tests first, and none much longer than without a mistake.

Nearly every mistake is found by a test of a few milliseconds, and many of the others make one run for ever. mutmut
names the tests that pass through a mistake in no order, and waits for all of them together.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

DURATIONS = Path("mutmut-stats.json")
"""What mutmut measured, in the folder that it runs tests in."""

PATIENCE, SLOWDOWN = 10, 30
"""Seconds that a test may take, and how many times as long as it took when it was measured."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort the tests by how long they took without a mistake, and give each its time."""
    if not DURATIONS.exists():
        return
    took: dict[str, float] = json.loads(DURATIONS.read_text(encoding="utf-8"))["duration_by_test"]
    items.sort(key=lambda item: took.get(item.nodeid, 0.0))
    for item in items:
        if item.nodeid in took:
            item.add_marker(pytest.mark.timeout(PATIENCE + SLOWDOWN * took[item.nodeid]))
