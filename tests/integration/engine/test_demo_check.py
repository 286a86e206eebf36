"""The demos' check finds every difference between a view and its query."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from demo.check import Finding, check

pytestmark = pytest.mark.spark

QUERY = "SELECT id, note FROM upstream WHERE id > 1"
UPSTREAM = [(1, "a"), (2, "b"), (3, None), (4, "d")]


@pytest.mark.parametrize(
    ("view", "finding"),
    [
        ([(4, "d"), (3, None), (2, "b")], Finding(expected=3, found=3, missing=0, unexpected=0)),
        ([(2, "b"), (3, None)], Finding(expected=3, found=2, missing=1, unexpected=0)),
        ([(2, "b"), (2, "b"), (3, None), (4, "d")], Finding(expected=3, found=4, missing=0, unexpected=1)),
        ([(2, "b"), (3, ""), (4, "d")], Finding(expected=3, found=3, missing=1, unexpected=1)),
    ],
    ids=["equal", "a row is missing", "a row is doubled", "an empty text for a null"],
)
def test_every_difference_counts(spark: SparkSession, view, finding):
    found = check(
        {"upstream": spark.createDataFrame(UPSTREAM, "id int, note string")},
        spark.createDataFrame(view, "id int, note string"),
        QUERY,
    )
    assert found == finding
    assert found.equal == (not finding.missing and not finding.unexpected)


def test_other_types_are_a_difference(spark: SparkSession):
    view = spark.createDataFrame([(2, "b")], "id bigint, note string")
    with pytest.raises(SystemExit, match="the view has the columns"):
        check({"upstream": spark.createDataFrame(UPSTREAM, "id int, note string")}, view, QUERY)


def test_what_a_view_keeps_for_its_epochs_does_not_count(spark: SparkSession):
    view = spark.createDataFrame([("a", 2, 2)], "note string, n bigint, __fold_rows bigint")
    upstreams = {"upstream": spark.createDataFrame([("a",), ("a",)], "note string")}
    assert check(upstreams, view, "SELECT note, count(*) AS n FROM upstream GROUP BY note").equal
