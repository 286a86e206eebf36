"""What the tests of refusals share."""

from __future__ import annotations

from pathlib import Path

from tests.integration.engine.lakehouse import Lakehouse


def assert_nothing_written(lakehouse: Lakehouse) -> None:
    assert not Path(lakehouse.view_path).exists()
    assert not (lakehouse.folder / "_backfill").exists()
