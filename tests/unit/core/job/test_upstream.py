"""The part of a job's definition that names its upstream, whatever its kind."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from airflow_backfill_provider.core.job.upstream import KeyColumn, UpstreamDefinition, definition_class
from airflow_backfill_provider.sources.delta.definition import DeltaUpstream


def upstream(**fields):
    return DeltaUpstream(**{"path": "/lake/orders", "key": ["id"], **fields})


@pytest.mark.parametrize(
    ("written", "column", "kept"),
    [
        ("id", KeyColumn(column="id"), "id"),
        ({"column": "id"}, KeyColumn(column="id"), "id"),
        ({"column": "id", "descending": True}, KeyColumn(column="id", descending=True), None),
    ],
)
def test_a_key_column_is_its_name_or_its_name_and_direction(written, column, kept):
    assert KeyColumn.model_validate(written) == column
    assert column.model_dump() == (kept or written), "as short as it can be written"


@pytest.mark.parametrize("wrong", ["", {"column": ""}, {"column": "id", "descending": "yes"}, {"name": "id"}, 7])
def test_an_invalid_key_column_is_refused(wrong):
    with pytest.raises(ValidationError):
        KeyColumn.model_validate(wrong)


def test_rows_are_distributed_by_the_key_by_default():
    assert upstream(key=["a", "b"]).distribution_key == ("a", "b")
    assert upstream(distribution_key=["c"]).distribution_key == ("c",)


@pytest.mark.parametrize("field", ["key", "distribution_key"])
def test_a_column_that_is_named_twice_is_refused(field):
    with pytest.raises(ValidationError, match=f"{field} names a, c more than once"):
        upstream(**{field: ["a", "b", "c", "a", "c"]})


def test_a_key_has_a_column():
    with pytest.raises(ValidationError, match="key"):
        upstream(key=[])


def test_the_fields_of_a_kind_come_before_those_of_every_kind():
    names = DeltaUpstream.field_names()
    assert set(names) == set(DeltaUpstream.model_fields)
    assert names[-2:] == ["key", "distribution_key"]
    assert set(names[:-2]).isdisjoint(UpstreamDefinition.model_fields)


@pytest.mark.parametrize("kept_below", [False, True])
def test_a_definition_is_read_under_the_name_of_its_kind_or_alone(kept_below):
    fields = {"path": "/lake/orders", "key": ["id"]}
    kind, read = definition_class({"delta": fields} if kept_below else fields)
    assert (kind, read) == (DeltaUpstream, fields)


@pytest.mark.parametrize("value", [None, "/lake/orders", {"mysql": {}}, {"delta": "x"}, {"delta": {}, "key": []}])
def test_a_definition_without_a_kind_is_of_the_first_kind(value):
    """Its error then names the field."""
    assert definition_class(value) == (DeltaUpstream, value)


def test_fields_of_the_first_kind_are_written_alone():
    written = upstream().model_dump(mode="json")
    assert DeltaUpstream(**written) == upstream()
    assert "delta" not in written
