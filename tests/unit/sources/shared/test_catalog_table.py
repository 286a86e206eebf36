"""Definitions of Delta tables by their names in a catalog."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.errors import InvalidJobError, UpstreamNotFoundError
from airflow_backfill_provider.sources import open_source
from airflow_backfill_provider.sources.append_only.definition import AppendOnlyUpstream
from airflow_backfill_provider.sources.delta.definition import DeltaUpstream

NAME = "prod.sales.orders"


@pytest.fixture(params=[DeltaUpstream, AppendOnlyUpstream])
def upstream(request):
    key = {"key": ["id"]} if request.param is DeltaUpstream else {}
    return request.param(table=NAME, **key).for_job("paid", "/lake/state")


def test_a_named_table_has_no_folder_until_it_is_placed(upstream):
    assert (upstream.is_placed, upstream.folders, upstream.location) == (False, {}, NAME)
    placed = upstream.placed("file:/lake/orders")
    assert (placed.is_placed, placed.folders, placed.location) == (
        True,
        {"upstream.path": "/lake/orders"},
        "/lake/orders",
    )
    assert (placed.catalog_table, placed.key) == (NAME, upstream.key)


def test_what_is_not_known_is_not_written(upstream):
    fields = upstream.model_dump(mode="json")
    assert "path" not in fields.get(upstream.kind, fields)


def test_a_table_whose_location_is_not_known_is_never_opened(upstream):
    """A relative path would be opened otherwise."""
    with pytest.raises(InvalidJobError, match=f"the location of {NAME} is not known before the job is created"):
        open_source(upstream)


def test_a_table_that_is_gone_is_named(upstream, tmp_path):
    source = open_source(upstream.placed(str(tmp_path / "gone")))
    with pytest.raises(UpstreamNotFoundError, match=rf"{NAME} lay there when the job was created.*rebuild the job"):
        source.latest()
