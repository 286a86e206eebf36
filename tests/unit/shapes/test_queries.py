"""A job's query over any relation, and the defaults of a shape."""

from __future__ import annotations

from airflow_backfill_provider.core.epoch.settings import ResolvedUpstream, UpstreamColumn
from airflow_backfill_provider.shapes.job_query import JobQuery
from airflow_backfill_provider.shapes.queries import QueryLineage, ShapedQuery
from tests.builders import job_of


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


def test_a_jobs_query_is_rendered_with_its_key_and_the_columns_as_of_its_creation():
    job = job_of(upstream={"path": "/lake/orders", "key": [{"column": "b", "descending": True}, "a"]})
    columns = tuple(UpstreamColumn(name=name, type="long") for name in ("a", "b"))
    query = JobQuery.of(job, Said(), ResolvedUpstream(table_id="t", columns=columns))
    assert query.over("rows") == f"rows ('b', 'a') {sorted(query.upstream_names)}"
    assert {"a", "b"} <= query.upstream_names
    assert (query.text, query.has_steps) == ("SELECT 1", False)


def test_a_shape_refuses_no_name_and_knows_no_origin_unless_it_says_so():
    Said().require_names(["anything"])
    assert Said().lineage(["a"], ["a"], ["a"]) == QueryLineage({}, ())
