"""The tables of the worked examples are what the engine does."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from docs import worked_example
from docs.generated import filled, read

pytestmark = pytest.mark.spark


@pytest.mark.exhaustive
def test_the_worked_examples_show_what_happens(spark: SparkSession, tmp_path: Path) -> None:
    pages = read(worked_example.PAGES)
    assert filled(pages, worked_example.run(spark, tmp_path)) == pages
