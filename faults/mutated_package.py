"""
A pytest plugin that refuses to test any other package than the one in the working folder.

Otherwise the tests could import an installed package instead of the mutant, and never fail.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import airflow_backfill_provider


def pytest_sessionstart() -> None:
    """Check where the package was imported from."""
    found = Path(str(airflow_backfill_provider.__file__)).resolve()
    if not found.is_relative_to(Path.cwd().resolve()):
        raise pytest.UsageError(f"the package is imported from {found.parent}, not from the working folder")
