"""
A plugin of pytest that refuses to run tests against any other package than the one in the working folder.

A mutant that nobody imports would be killed by no test; or an installed package would be tested instead of it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import airflow_backfill_provider


def pytest_sessionstart() -> None:
    """Look where the package was imported from."""
    found = Path(str(airflow_backfill_provider.__file__)).resolve()
    if not found.is_relative_to(Path.cwd().resolve()):
        raise pytest.UsageError(f"the package is imported from {found.parent}, and not from the working folder")
