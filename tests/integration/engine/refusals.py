"""What the tests of refusals share."""

from __future__ import annotations

from tests.integration.engine.lakehouse import Lakehouse


def assert_nothing_written(lakehouse: Lakehouse) -> None:
    assert not lakehouse.on_disk(lakehouse.view_path).exists()
    assert not lakehouse.on_disk(f"{lakehouse.folder}/_backfill").exists()
