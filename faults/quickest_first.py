"""
A plugin of pytest for mutation testing: of the tests that pass through a mistake, the quickest ones are run first.

Nearly every mistake is found by a test of a few milliseconds; mutmut names the tests in no order, long ones among them.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

DURATIONS = Path("mutmut-stats.json")
"""What mutmut measured, in the folder that it runs tests in."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort the tests by how long they took without a mistake."""
    if DURATIONS.exists():
        took: dict[str, float] = json.loads(DURATIONS.read_text(encoding="utf-8"))["duration_by_test"]
        items.sort(key=lambda item: took.get(item.nodeid, 0.0))
