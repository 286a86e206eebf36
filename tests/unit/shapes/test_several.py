"""A query over several upstreams is resolved over their columns and keys before it is rendered."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.shapes import query_of, resolved_query_of
from airflow_backfill_provider.shapes.several import tables_of
from tests.builders import settings_of
from tests.several import LOOKUP, shape_of_several
from tests.shop import Shop


@pytest.fixture
def shop(tmp_path):
    with shape_of_several():
        yield Shop(tmp_path)


def test_the_tables_of_a_created_job_have_the_used_columns_and_the_lead_is_the_first(shop):
    settings = shop.create()
    tables = tables_of(settings.definition, settings.upstream)
    assert list(tables) == ["orders", "customers"]
    assert (tables["customers"].key, dict(tables["customers"].types)) == (("id",), {"id": "long", "name": "string"})
    assert dict(resolved_query_of(settings).tables) == dict(tables)


def test_a_query_over_several_is_rendered_over_all_of_them():
    with shape_of_several():
        from tests.several import Lookup

        query = Lookup().query(LOOKUP)
    assert "FROM a AS l LEFT JOIN b AS d" in query.text_over("a", {"customers": "b"})
    with pytest.raises(TypeError, match="orders, customers cannot read a alone"):
        query.render("a", ("id",), frozenset())


def test_a_query_over_one_upstream_needs_no_resolving():
    settings = settings_of()
    assert resolved_query_of(settings) == query_of(settings.definition)
