"""What the definitions of upstreams with a file log have in common."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.sources.append_only.definition import AppendOnlyUpstream
from airflow_backfill_provider.sources.delta.definition import DeltaUpstream
from airflow_backfill_provider.sources.files.definition import FilesUpstream
from airflow_backfill_provider.sources.shared.file_log.definition import PLACE, SPLIT, require_no_key_columns

FILES = {"path": "/in", "format": "csv", "schema": "id BIGINT"}


def job(**upstream: object) -> BackfillJob:
    return BackfillJob(name="j", upstream=upstream, materialized_view="/lake/v", query="SELECT id FROM upstream")


def test_append_only_stands_beside_the_path():
    upstream = job(path="/lake/events", append_only=True).upstream
    assert isinstance(upstream, AppendOnlyUpstream)
    assert upstream.distribution_key == (SPLIT,)
    assert upstream.file_log == "/lake/_backfill/j/file_log"
    assert isinstance(job(path="/lake/events", key=["id"]).upstream, DeltaUpstream)


@pytest.mark.parametrize("fields", [{"path": "/lake/events", "append_only": True}, {"files": FILES}])
def test_a_definition_is_the_same_after_it_was_stored(fields: dict[str, object]):
    defined = job(**fields)
    assert BackfillJob(**defined.model_dump(mode="json")).definition() == defined.definition()


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"path": "/e", "append_only": True, "key": ["id"]}, "upstream.*leave key out"),
        ({"path": "/e", "append_only": False}, "append_only"),
        ({"path": "/e", "append_only": True, "topic": "x"}, "upstream.topic: unknown field; allowed are table, path"),
        ({"files": {**FILES, "schema": "id BIGINT, x STRUCT<a: INT>"}}, "column x cannot be nested"),
        ({"files": {**FILES, "schema": f"{PLACE} BIGINT"}}, "the name of a column that identifies rows"),
        ({"files": {**FILES, "format": "xml"}}, "upstream.files.format: Input should be 'json', 'csv' or 'parquet'"),
        ({"files": {**FILES, "delimiter": '"'}}, "delimiter"),
        ({"files": {**FILES, "colour": 1}}, "allowed are path, format, schema"),
        ({"files": {"path": "/in", "format": "json"}}, "upstream.files.schema: is required"),
    ],
)
def test_what_contradicts_is_refused_by_name(fields: dict[str, object], problem: str):
    """I6."""
    with pytest.raises(InvalidJobError, match=problem):
        job(**fields)


def test_columns_of_files_are_those_of_the_schema():
    upstream = job(files={**FILES, "schema": "id BIGINT, amount DECIMAL(12,2)"}).upstream
    assert isinstance(upstream, FilesUpstream)
    assert upstream.column_types == {"id": "long", "amount": "decimal(12,2)"}


def test_a_table_with_a_column_that_identifies_rows_is_refused():
    with pytest.raises(InvalidJobError, match="rename it"):
        require_no_key_columns("/lake/events", {"id": "long", SPLIT.upper(): "integer"})
