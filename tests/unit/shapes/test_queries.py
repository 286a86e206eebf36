"""A job's query over any relation, and the defaults of a shape."""

from __future__ import annotations

from airflow_backfill_provider.shapes.queries import QueryLineage
from tests.unit.shapes.said_query import Said


def test_a_shape_refuses_no_name_and_knows_no_origin_unless_it_says_so():
    Said().require_names(["anything"])
    assert Said().lineage(["a"], ["a"], ["a"]) == QueryLineage({}, ())
