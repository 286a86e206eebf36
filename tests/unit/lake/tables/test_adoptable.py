"""Which tables can become views, by their logs."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from airflow_backfill_provider.core.errors import MaterializedViewError, VersionGoneError
from airflow_backfill_provider.lake.log.log_state import LogState
from airflow_backfill_provider.lake.tables.adoptable import find_table, refusals
from airflow_backfill_provider.lake.tables.view_identity import JOB_PROPERTY

PLAIN = {"name": "id", "type": "long", "nullable": True, "metadata": {}}


def state(*, files=(), properties=None, features=(), fields=(PLAIN,)):
    return LogState(
        files={entry["path"]: {"size": 1, **entry} for entry in files},
        protocol={"minReaderVersion": 3, "minWriterVersion": 7, "writerFeatures": list(features)},
        metadata={"schemaString": json.dumps({"type": "struct", "fields": list(fields)}), "configuration": properties},
    )


def first(found, *, in_place=True):
    return next(refusals(found, in_place=in_place), "")


def rows(*numbers):
    return pa.table({"id": pa.array(numbers, pa.int64())})


def test_a_plain_table_is_refused_for_nothing():
    plain = state(
        files=[{"path": "part-0.parquet"}, {"path": "day=1/part-1.parquet", "deletionVector": {"storageType": "u"}}],
        properties={"delta.enableDeletionVectors": "true", "delta.checkpointInterval": "7", "owner": "etl"},
        features=["deletionVectors", "checkConstraints", "columnMapping", "identityColumns", "clustering"],
    )
    assert not first(plain)


@pytest.mark.parametrize(
    "path", ["file:/lake/other/part-0.parquet", "/lake/part-0.parquet", "s3a://b/t/part-0.parquet"]
)
def test_files_of_another_table_are_refused(path):
    """The other table's VACUUM would delete them."""
    assert "shallow clone" in first(state(files=[{"path": "part-0.parquet"}, {"path": path}]), in_place=False)


def test_hidden_rows_of_another_table_are_refused():
    entry = {"path": "part-0.parquet", "deletionVector": {"storageType": "p", "pathOrInlineDv": "/lake/x.bin"}}
    assert "shallow clone" in first(state(files=[entry]))


@pytest.mark.parametrize(
    ("found", "message"),
    [
        ({"features": ["rowTracking"]}, "table feature rowTracking"),
        ({"features": ["typeWidening"]}, "table feature typeWidening"),
        ({"features": ["rowFilters"]}, "table feature rowFilters"),
        ({"features": ["v2Checkpoint"]}, "table feature v2Checkpoint"),
        ({"properties": {"delta.columnMapping.mode": "name"}}, "delta.columnMapping.mode"),
        ({"properties": {"delta.appendOnly": "true"}}, "delta.appendOnly"),
        ({"properties": {"delta.constraints.positive": "id > 0"}}, "DROP CONSTRAINT positive"),
        ({"properties": {"delta.setTransactionRetentionDuration": "1 day"}}, "forgets transactions"),
        ({"properties": {"delta.enableRowTracking": "true"}}, "delta.enablerowtracking"),
        ({"fields": [{**PLAIN, "nullable": False}]}, "DROP NOT NULL"),
        ({"fields": [{**PLAIN, "metadata": {"delta.identity.start": 1}}]}, "is an identity column"),
        ({"fields": [{**PLAIN, "metadata": {"delta.generationExpression": "1"}}]}, "is generated"),
        ({"fields": [{**PLAIN, "metadata": {"delta.invariants": "{}"}}]}, "has an invariant"),
        ({"fields": [{**PLAIN, "metadata": {"CURRENT_DEFAULT": "1"}}]}, "has a default"),
        ({"fields": [{**PLAIN, "metadata": {"__CHAR_VARCHAR_TYPE_STRING": "char(2)"}}]}, "is a CHAR or VARCHAR"),
    ],
)
def test_what_a_view_cannot_have_is_refused_by_name(found, message):
    assert message in first(state(**found))


def test_a_view_of_another_job_is_copied_and_not_adopted_in_place():
    view = state(properties={JOB_PROPERTY: "other"})
    assert "is a view of job other already" in first(view)
    assert not first(view, in_place=False)


@pytest.fixture
def table(tmp_path):
    """A table of two versions with rows, and one without."""
    write_deltalake(tmp_path, rows(1))
    write_deltalake(tmp_path, rows(2), mode="append")
    DeltaTable(tmp_path).alter.set_table_properties({"owner": "etl"}, raise_if_not_exists=False)
    return str(tmp_path)


def test_the_newest_version_is_found_with_what_wrote_it_last(table):
    found = find_table(table, None, in_place=True)
    assert (found.version, found.files, list(found.schema.types)) == (2, 2, ["id"])
    assert found.size > 0
    assert found.written_by.startswith("WRITE, delta-rs")
    assert found.written_at == find_table(table, 1, in_place=False).written_at


def test_files_of_an_older_version_can_be_copied_but_the_table_is_adopted_as_it_is(table):
    assert find_table(table, 0, in_place=False).files == 1
    with pytest.raises(MaterializedViewError, match="version 1 .* changed it after version 0"):
        find_table(table, 0, in_place=True)


def test_a_version_that_does_not_exist_is_refused(table, tmp_path):
    with pytest.raises(MaterializedViewError, match="the newest version of .* is 2"):
        find_table(table, 3, in_place=False)
    with pytest.raises(MaterializedViewError, match="there is no Delta table"):
        find_table(f"{tmp_path}/nothing", None, in_place=False)
    DeltaTable(table).create_checkpoint()
    (tmp_path / "_delta_log" / f"{0:020d}.json").unlink()
    with pytest.raises(VersionGoneError, match="no longer has version 1"):
        find_table(table, 1, in_place=False)
