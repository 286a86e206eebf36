"""The tables of the concepts page are what the engine does."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from docs import worked_example
from docs.generated import filled

pytestmark = pytest.mark.spark


@pytest.mark.exhaustive
def test_the_concepts_page_shows_what_happens(spark: SparkSession, tmp_path: Path) -> None:
    page = worked_example.PAGE.read_text(encoding="utf-8")
    assert filled(page, worked_example.run(spark, tmp_path)) == page
