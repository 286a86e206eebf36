"""Which settings a session may keep."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.spark.session_settings import OURS, affects_no_result, settings_to_reset
from tests.known_settings import KNOWN_SETTINGS


def test_every_setting_that_spark_knows_is_classified() -> None:
    """The list says of each whether it may stay; a changed rule shows as a changed line there."""
    kept = {name for name in KNOWN_SETTINGS if affects_no_result(name) or name in OURS}
    assert {name for name, stays in KNOWN_SETTINGS.items() if stays} == kept


@pytest.mark.parametrize(
    ("name", "stays"),
    [
        ("spark.app.name", True),
        ("spark.sql.shuffle.partitions", True),
        ("spark.sql.adaptive.enabled", True),
        ("spark.sql.caseSensitive", False),
        ("spark.sql.nobody.has.seen.this", False),
        ("spark.databricks.delta.optimize.maxFileSize", True),
        ("spark.databricks.delta.schema.autoMerge.enabled", False),
        ("spark.databricks.delta.nobody.has.seen.this", False),
    ],
)
def test_a_setting_stays_if_it_is_known_to_change_no_result(name: str, stays: bool) -> None:
    """I2: an unknown setting is reset."""
    assert affects_no_result(name) is stays
    assert settings_to_reset([name]) == ([] if stays else [name])


def test_settings_that_every_session_gets_are_set_and_not_reset() -> None:
    assert settings_to_reset([*OURS, "spark.sql.z", "spark.sql.caseSensitive"]) == [
        "spark.sql.caseSensitive",
        "spark.sql.z",
    ]


def test_delta_derives_no_condition_on_a_generated_partition_column() -> None:
    """I6: the column's writer may have had another time zone, and then files with wanted rows would be left out."""
    name = "spark.databricks.delta.generatedColumn.partitionFilterOptimization.enabled"
    assert OURS[name] == "false"
    assert settings_to_reset([name]) == []
