"""Which settings a session may keep."""

from __future__ import annotations

from airflow_backfill_provider.engine.session_settings import OURS, changes_no_result
from tests.known_settings import KNOWN_SETTINGS


def test_every_setting_that_spark_knows_was_looked_at() -> None:
    """The list says of each whether it may stay; a changed rule shows as a changed line there."""
    kept = {name for name in KNOWN_SETTINGS if changes_no_result(name) or name in OURS}
    assert {name for name, stays in KNOWN_SETTINGS.items() if stays} == kept
