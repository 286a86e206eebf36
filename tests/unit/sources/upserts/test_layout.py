"""Which columns a table of upserts must have."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.errors import UpstreamError
from airflow_backfill_provider.sources.upserts.definition import UpsertsUpstream
from airflow_backfill_provider.sources.upserts.layout import require_layout

UPSTREAM = UpsertsUpstream(path="/lake/t", key=["id"], ordered_by=["at", "offset"], deleted="gone", split="partition")
TYPES = {"id": "string", "at": "timestamp", "offset": "long", "gone": "boolean", "partition": "integer"}


def test_a_suitable_table():
    require_layout("/lake/t", TYPES, UPSTREAM)
    require_layout(
        "/lake/t", {"at": "date", "offset": "short"}, UPSTREAM.model_copy(update={"deleted": None, "split": None})
    )


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"offset": "string"}, "/lake/t: column offset is string, and ordered_by needs a whole number"),
        ({"at": '{"type": "struct", "fields": []}'}, "column at is nested"),
        ({"at": "double"}, "column at is double"),
        ({"gone": "string"}, "column gone is string, and deleted needs a boolean"),
        ({"partition": "double"}, "column partition is double, and split needs"),
        ({"offset": None}, "there is no column offset"),
        ({"gone": None}, "there is no column gone"),
        ({"partition": None}, "there is no column partition"),
    ],
)
def test_an_unsuitable_column_is_named(changed, message):
    types = {name: kind for name, kind in {**TYPES, **changed}.items() if kind is not None}
    with pytest.raises(UpstreamError, match=message):
        require_layout("/lake/t", types, UPSTREAM)
