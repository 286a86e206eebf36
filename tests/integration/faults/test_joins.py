"""The campaign of joins on real Spark: a case ends right, and wrong rows are found, whichever engine finds them."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from faults.campaign import WrongError
from faults.joins import datafusion, play
from faults.joins.case import JoinsCase
from faults.joins.queries import DrawnQuery
from faults.joins.tables import JoinedTable
from faults.joins.truth import JoinsTruth
from faults.shapes.case import Case, Column

pytestmark = pytest.mark.spark

ID, CUSTOMER, NAME = (
    Column(name=name, type=kind) for name, kind in (("id", "long"), ("customer", "integer"), ("name", "string"))
)
QUERY = "SELECT o.id, c.name FROM orders o LEFT JOIN customers c ON c.id = o.customer"


def table(name: str, *others: Column) -> JoinedTable:
    upstream = Case(
        rows_seed=3,
        writer="delta-rs",
        columns=(ID, *others),
        key=(("id", False),),
        rows=12,
        files=1,
    )
    references, values = ([one for one in others if (one is CUSTOMER) == wanted] for wanted in (True, False))
    return JoinedTable(name, (ID,), tuple(references), tuple(values), upstream)


TABLES = (table("orders", CUSTOMER), table("customers", NAME))
ROWS = {"orders": ((1, 7), (2, None), (3, 8)), "customers": ((7, "a"), (8, "b"))}


@pytest.mark.exhaustive
def test_a_case_ends_right(spark: SparkSession, lake: Path) -> None:
    query = DrawnQuery(QUERY, "join", TABLES, frozenset({"orders", "customers"}))
    gaps = ((("customers", "replace"),), (("orders", "mixture"), ("customers", "column"), ("customers", "delete")))
    fields = {"strategy": "snapshot", "visibility": "on_finish", "rate_limit": 5, "vnode_count": 4}
    outcome = play(JoinsCase(query, fields, gaps, seed=2), spark, lake)
    assert outcome.result == "right"
    assert outcome.checks >= 2


def test_a_wrong_row_is_found(spark: SparkSession, lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    truth = JoinsTruth(TABLES, QUERY, spark.newSession(), lake)
    right = spark.createDataFrame([(1, "a"), (2, None), (3, "b")], "id BIGINT, name STRING")
    truth.require(right, ROWS, "now")
    assert truth.computed_twice == 1
    for wrong in (right.where("id < 3"), right.union(right.where("id = 1")), right.selectExpr("id", "'a' AS name")):
        with pytest.raises(WrongError, match="now: .* rows missing"):
            truth.require(wrong, ROWS, "now")
    truth.record("orders", 1, ROWS["orders"])
    truth.record("orders", 4, ())
    truth.record("customers", 2, ROWS["customers"])
    assert truth.rows_at({"orders": 3, "customers": 2}) == ROWS
    assert truth.newest() == {**ROWS, "orders": ()}
    monkeypatch.setattr(datafusion, "computed", lambda *_: [(1, "a")])
    with pytest.raises(WrongError, match="the engines differ: only Spark"):
        truth.require(right, ROWS, "now")
