"""What each function becomes, and why some cannot be folded."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.shapes.group.fold.reasons import Reason
from airflow_backfill_provider.shapes.group.fold.step import Aggregate
from tests.unit.shapes.group.fold.calls import call, fold, not_folded


@pytest.mark.parametrize(
    ("aggregate", "reason"),
    [
        (call("count", "v", "int", "bigint", is_distinct=True), Reason.DISTINCT),
        (call("sum", "v", "int", "bigint", is_distinct=True), Reason.DISTINCT),
        (call("try_avg", "v", "int", "double", is_distinct=True), Reason.DISTINCT),
        (call("count_if", "b", "boolean", "bigint", is_distinct=True), Reason.DISTINCT),
        (call("sum", "v", "double", "double"), Reason.FLOAT),
        (call("avg", "v", "float", "double"), Reason.FLOAT),
        (call("sum", "v", "string", "double"), Reason.TYPE),
        (call("avg", "v", "void", "double"), Reason.TYPE),
        (call("sum", "v", "decimal(38,38)", "decimal(38,38)"), Reason.DIGITS),
        (call("sum", "v", "int", "int"), Reason.TYPE),
        (call("avg", "v", "decimal(10,2)", "decimal(14,2)"), Reason.TYPE),
        (call("min", "v", "string collate UTF8_LCASE", "string collate UTF8_LCASE"), Reason.COLLATION),
        (call("max", "v", "struct<a:string collate UNICODE>", "struct<a:string collate UNICODE>"), Reason.COLLATION),
        (call("max", "v", "interval day", "interval day"), Reason.TYPE),
        (call("min", "v", "void", "void"), Reason.TYPE),
        (call("min", "v", "time(6)", "time(6)"), Reason.TYPE),
        (call("bool_and", "v", "int", "boolean"), Reason.TYPE),
        (call("count_if", "v", "string", "bigint"), Reason.TYPE),
        (call("percentile", "v", "int", "double"), Reason.FUNCTION),
        (call("max_by", "v", "int", "int"), Reason.FUNCTION),
        (call("count", "upstream.*", "int", "bigint"), Reason.FUNCTION),
    ],
    ids=lambda value: str(value) if isinstance(value, Reason) else f"{value.function}-{value.argument_types}",
)
def test_what_cannot_be_undone_has_a_reason(aggregate: Aggregate, reason: Reason) -> None:
    """I1: then the group is computed anew. A type that Spark may change one day is one of the reasons."""
    found = not_folded(aggregate)
    assert found.reason is reason
    assert str(found).startswith(f"{aggregate.function}(")


def test_a_reason_says_what_to_write() -> None:
    assert str(not_folded(call("sum", "price", "double", "double"))) == (
        "sum(price) cannot be folded: a double that was added to a sum cannot be taken away exactly; "
        "write sum(CAST(price AS DECIMAL(p,s)))"
    )


@pytest.mark.parametrize("function", ["min", "max", "bool_and", "some"])
def test_distinct_makes_no_difference_to_extremes(function: str) -> None:
    aggregate = call(function, "b", "boolean", "boolean", is_distinct=True)
    assert list(fold(aggregate).outputs) == ["r"]


def test_extremes_of_booleans_are_known_from_counts() -> None:
    """So no group is read again for them."""
    found = fold(call("min", "b", "boolean", "boolean", "a"), call("max", "b", "boolean", "boolean", "z"))
    assert {column.is_lost for column in found.columns} == {"false"}


@pytest.mark.parametrize(
    "kind",
    ["int", "double", "decimal(38,18)", "string", "binary", "date", "timestamp", "timestamp_ntz", "array<int>"],
)
def test_extremes_keep_their_type(kind: str) -> None:
    found = fold(call("min", "v", kind, kind))
    assert (found.columns[-1].type, found.outputs["r"].type) == (kind, kind)


def test_types_are_asked_for_each_argument() -> None:
    with pytest.raises(ValueError, match="1 types"):
        fold(
            Aggregate(function="count", arguments=("a", "b"), argument_types=("int",), result_type="bigint", output="n")
        )
