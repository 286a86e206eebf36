"""Which tables take data files that Delta's own writer did not write."""

from __future__ import annotations

import json

import pytest
from deltalake import DeltaTable

from airflow_backfill_provider.lake.log.plain_tables import plain_table
from tests.deletion_vectors import write_actions


def field(name, kind="long", *, nullable=True, **metadata):
    return {"name": name, "type": kind, "nullable": nullable, "metadata": metadata}


def made(path, *fields, features=("appendOnly", "invariants", "deletionVectors"), partitioned_by=(), **properties):
    """Write the first commit of a table, and open it."""
    readers = [feature for feature in features if feature in {"deletionVectors", "timestampNtz"}]
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": readers, "writerFeatures": [*features]}
    metadata = {
        "id": "3b2c9d8e-0000-4000-8000-000000000000",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": [*fields]}),
        "partitionColumns": [*partitioned_by],
        "configuration": {f"delta.{name}": value for name, value in properties.items()},
    }
    (path / "_delta_log").mkdir()
    write_actions(path, 0, {"protocol": protocol}, {"metaData": metadata})
    return DeltaTable(path)


LIST = {"type": "array", "elementType": "string", "containsNull": True}
NESTED = {
    "type": "struct",
    "fields": [
        field("x"),
        field("m", {"type": "map", "keyType": "long", "valueType": LIST, "valueContainsNull": True}),
    ],
}


def test_an_ordinary_table_is_plain(tmp_path):
    fields = [
        field("id"),
        field("amount", "decimal(10,2)"),
        field("at", "timestamp", comment="when"),
        field("n", NESTED),
    ]
    found = plain_table(made(tmp_path, *fields, enableDeletionVectors="true", dataSkippingNumIndexedCols="2"))
    assert found is not None
    assert [one["name"] for one in found.fields] == ["id", "amount", "at", "n"]
    assert (found.indexed, found.checkpoint_interval) == (2, 10)


def test_the_tables_own_interval_of_checkpoints_counts(tmp_path):
    assert plain_table(made(tmp_path, field("id"), checkpointInterval="25")).checkpoint_interval == 25


@pytest.mark.parametrize(
    ("fields", "properties"),
    [
        ([field("id", nullable=False)], {}),
        ([field("id", **{"delta.generationExpression": "1"})], {}),
        ([field("id", **{"delta.invariants": "{}"})], {}),
        ([field("s", {"type": "struct", "fields": [field("x", nullable=False)]})], {}),
        ([field("a", {**LIST, "containsNull": False})], {}),
        (
            [field("m", {"type": "map", "keyType": "long", "valueType": "long", "valueContainsNull": False})],
            {},
        ),
        ([field("id")], {"constraints.positive": "id > 0"}),
        ([field("id")], {"columnMapping.mode": "name"}),
        ([field("id")], {"autoOptimize.autoCompact": "true"}),
        ([field("id")], {"enableInCommitTimestamps": "true"}),
        ([field("id")], {"dataSkippingStatsColumns": "id"}),
        ([field("id")], {"somethingNew": "true"}),
    ],
)
def test_a_table_that_asks_for_something_is_not(tmp_path, fields, properties):
    assert plain_table(made(tmp_path, *fields, **properties)) is None


@pytest.mark.parametrize(
    "feature", ["columnMapping", "generatedColumns", "rowTracking", "identityColumns", "somethingNew"]
)
def test_a_table_with_another_feature_is_not(tmp_path, feature):
    assert plain_table(made(tmp_path, field("id"), features=("appendOnly", feature))) is None


def test_a_partitioned_table_is_not(tmp_path):
    assert plain_table(made(tmp_path, field("id"), field("day"), partitioned_by=["day"])) is None


@pytest.mark.parametrize(
    ("fields", "taken"),
    [
        ([field("id"), field("name", "string")], True),
        ([field("id", nullable=False), field("name", "string", comment="c")], True),
        ([field("name", "string"), field("id")], False),
        ([field("id"), field("NAME", "string")], False),
        ([field("id", "integer"), field("name", "string")], False),
        ([field("id")], False),
    ],
)
def test_rows_must_have_the_tables_columns(tmp_path, fields, taken):
    table = plain_table(made(tmp_path, field("id"), field("name", "string")))
    assert table.takes(fields) is taken


@pytest.mark.parametrize("feature", ["clustering", "domainMetadata"])
def test_files_are_added_to_a_clustered_table_without_deltalake(tmp_path, feature):
    """deltalake commits nothing to such a table."""
    found = plain_table(made(tmp_path, field("id"), features=("appendOnly", feature)))
    assert found is not None
    assert not found.for_deltalake


@pytest.mark.parametrize("kind", ["double", "float", "decimal(16,2)"])
def test_a_clustered_table_with_columns_without_bounds_is_not_plain(tmp_path, kind):
    """It may be clustered by one of them, and then each file must have its bounds."""
    assert plain_table(made(tmp_path, field("id"), field("x", kind), features=("clustering",))) is None


def test_a_clustered_table_may_have_short_decimals(tmp_path):
    assert plain_table(made(tmp_path, field("x", "decimal(15,2)"), features=("clustering",))) is not None
