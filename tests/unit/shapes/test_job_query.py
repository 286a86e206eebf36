"""A job's query over any relation."""

from __future__ import annotations

from airflow_backfill_provider.core.epoch.settings import ResolvedUpstream, UpstreamColumn
from airflow_backfill_provider.shapes import query_of
from airflow_backfill_provider.shapes.job_query import JobQuery
from tests.builders import job_of
from tests.several import shape_of_several
from tests.shop import Shop
from tests.unit.shapes.said_query import Said


def test_a_jobs_query_is_rendered_with_its_key_and_the_columns_as_of_its_creation():
    job = job_of(upstream={"path": "/lake/orders", "key": [{"column": "b", "descending": True}, "a"]})
    columns = tuple(UpstreamColumn(name=name, type="long") for name in ("a", "b"))
    query = JobQuery.of(job, Said(), ResolvedUpstream(table_id="t", columns=columns))
    assert query.over("rows") == f"rows ('b', 'a') {sorted(query.upstream_names)}"
    assert {"a", "b"} <= query.upstream_names
    assert (query.text, query.has_steps) == ("SELECT 1", False)


def test_a_query_over_several_upstreams_is_rendered_over_each(tmp_path):
    with shape_of_several():
        shop = Shop(tmp_path)
        settings = shop.create()
        query = JobQuery.of(shop.job, query_of(shop.job), settings.upstream)
    assert query.others == ("customers",)
    assert query.upstream_names == {"id", "customer", "name"}
    assert "FROM a AS l LEFT JOIN b AS d" in query.over("a", {"customers": "b"})
