"""A job's query over any relation, and the defaults of a shape."""

from __future__ import annotations

from airflow_backfill_provider.shapes.queries import QueryLineage, ShapedQuery


class Said(ShapedQuery):
    """A query that repeats what it is rendered with."""

    text = "SELECT 1"

    def columns_of(self, available):
        return tuple(available)

    def render(self, relation, key, upstream_names):
        return f"{relation} {key} {sorted(upstream_names)}"

    def units(self, settings, *, by_key):
        raise NotImplementedError

    def holds_distribution_key(self, settings):
        raise NotImplementedError


def test_a_shape_refuses_no_name_and_knows_no_origin_unless_it_says_so():
    Said().require_names(["anything"])
    assert Said().lineage(["a"], ["a"], ["a"]) == QueryLineage({}, ())
