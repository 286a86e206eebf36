"""Where a table of Debezium's events has what."""

from __future__ import annotations

import json

import pytest

from airflow_backfill_provider.core.errors import UpstreamError
from airflow_backfill_provider.sources.debezium.layout import layout_of


def struct(**fields):
    return json.dumps({"type": "struct", "fields": [{"name": name, "type": kind} for name, kind in fields.items()]})


ROW = struct(id="long", name="string")
SOURCE = struct(lsn="long", txId="long", ts_ms="long")
ENVELOPE = {"op": "string", "before": ROW, "after": ROW, "source": SOURCE, "ts_ms": "long"}
FLATTENED = {"id": "long", "name": "string", "__op": "string", "__lsn": "long", "__deleted": "string"}


def test_an_envelope_has_the_row_in_a_struct():
    layout = layout_of("/e", ENVELOPE)
    assert (layout.new, layout.old, layout.operation) == (("after",), ("before",), ("op",))
    assert (layout.position, layout.committed_at) == (("source", "lsn"), ("source", "ts_ms"))
    assert layout.transaction == ("source", "txId")
    assert layout.types == {"id": "long", "name": "string"}
    assert layout.old_columns == {"id", "name"}


def test_an_envelope_may_lie_in_a_payload():
    layout = layout_of("/e", {"schema": "string", "payload": struct(**{k: _type(v) for k, v in ENVELOPE.items()})})
    assert (layout.new, layout.position) == (("payload", "after"), ("payload", "source", "lsn"))
    assert layout.types == {"id": "long", "name": "string"}


def _type(kind):
    return json.loads(kind) if kind.startswith("{") else kind


def test_fields_that_are_no_whole_numbers_are_not_used():
    layout = layout_of("/e", {**ENVELOPE, "source": struct(lsn="integer", txId="string", ts_ms="timestamp")})
    assert layout.position == ("source", "lsn")
    assert (layout.transaction, layout.committed_at) == (None, None)


def test_a_flattened_event_has_the_row_at_the_top():
    layout = layout_of("/e", {**FLATTENED, "__txId": "long", "__source_ts_ms": "long", "__table": "string"})
    assert (layout.new, layout.old, layout.operation, layout.position) == ((), None, ("__op",), ("__lsn",))
    assert (layout.transaction, layout.committed_at) == (("__txId",), ("__source_ts_ms",))
    assert layout.types == {"id": "long", "name": "string"}


@pytest.mark.parametrize("name", ["__lsn", "__source_lsn"])
def test_the_position_of_a_flattened_event_has_one_of_two_names(name):
    types = {column: kind for column, kind in FLATTENED.items() if column != "__lsn"}
    assert layout_of("/e", {**types, name: "long"}).position == (name,)


def test_nested_columns_keep_their_types():
    tags = {"type": "array", "elementType": "string", "containsNull": True}
    layout = layout_of("/e", {**ENVELOPE, "after": struct(id="long", tags=tags)})
    assert json.loads(layout.types["tags"]) == tags


@pytest.mark.parametrize(
    ("types", "message"),
    [
        ({"id": "long"}, "neither a column op"),
        ({**ENVELOPE, "after": "string"}, "after is string, not a struct"),
        ({"op": "string", "source": SOURCE}, "after is missing, not a struct"),
        ({**ENVELOPE, "source": "string"}, "no whole number in source.lsn"),
        ({**ENVELOPE, "source": struct(pos="long")}, "no whole number in source.lsn.*Only events of PostgreSQL"),
        ({"id": "long", "__op": "string", "__deleted": "string"}, "no column __lsn, without which changes have no"),
        ({"id": "long", "__op": "string", "__lsn": "long"}, "no column __deleted, without which deletes are missing"),
        ({"payload": "string"}, "neither a column op"),
    ],
)
def test_what_is_missing_is_said_with_what_to_set(types, message):
    with pytest.raises(UpstreamError, match=message):
        layout_of("/e", types)
