"""
A pytest plugin for mutation testing: the quickest tests run first, and none runs much longer than without a mistake.

A test of a few milliseconds finds nearly every mistake, and many of the other mistakes make a test run forever. mutmut
names the tests for a mistake in no particular order, and has one timeout for all of them together.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

DURATIONS = Path("mutmut-stats.json")
"""mutmut's measurements, in the folder in which it runs the tests."""

PATIENCE, SLOWDOWN = 10, 30
"""The time limit of a test: some seconds, plus a multiple of its measured time."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort the tests by their time without a mistake, and set a time limit for each."""
    if not DURATIONS.exists():
        return
    took: dict[str, float] = json.loads(DURATIONS.read_text(encoding="utf-8"))["duration_by_test"]
    items.sort(key=lambda item: took.get(item.nodeid, 0.0))
    for item in items:
        if item.nodeid in took:
            item.add_marker(pytest.mark.timeout(PATIENCE + SLOWDOWN * took[item.nodeid]))
