"""Leaves the slow tests of the model to `make test-exhaustive`, as long as the model does not change."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.model.played import is_played

FOLDER = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the slow ones as exhaustive, if they were played since the model last changed."""
    if not is_played():
        return
    for item in items:
        if item.path.parent == FOLDER and item.get_closest_marker("slow"):
            item.add_marker(pytest.mark.exhaustive)
