"""A log that refers to the files of another table, and numbers them."""

from __future__ import annotations

import json
import uuid

import pytest

from airflow_backfill_provider.core.errors import TableLogError
from airflow_backfill_provider.lake.log.log_state import LogState
from airflow_backfill_provider.lake.log.numbered_log import write_numbered_log

SCHEMA = {"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]}
FILE = {"path": "day=a%20b/one.parquet", "partitionValues": {"day": "a b"}, "size": 7, "modificationTime": 3}


def state_of(*files, protocol=None, configuration=None, schema=SCHEMA):
    return LogState(
        files={file["path"]: file for file in files},
        protocol=protocol or {"minReaderVersion": 1, "minWriterVersion": 4},
        metadata={
            "id": "x",
            "schemaString": json.dumps(schema),
            "partitionColumns": ["day"],
            "configuration": configuration or {},
        },
    )


@pytest.fixture
def written(tmp_path):
    """Writes the log of a state, and returns its entries by kind."""

    def write(state, table="/lake/the orders", paths=None):
        location = tmp_path / uuid.uuid4().hex
        write_numbered_log(str(location), table, state, paths or [*state.files], {})
        lines = (location / "_delta_log" / f"{0:020d}.json").read_text().splitlines()
        found = {"add": []}
        for action in map(json.loads, lines):
            for kind, content in action.items():
                found[kind] = [*found["add"], content] if kind == "add" else content
        return found

    return write


def test_files_have_numbers_and_whole_uris(written):
    other = {"path": "s3a://elsewhere/two.parquet", "partitionValues": {}, "size": 1, "modificationTime": 4}
    log = written(state_of(FILE, other), paths=[other["path"], FILE["path"]])
    assert [added["path"] for added in log["add"]] == [
        "s3a://elsewhere/two.parquet",
        "file:/lake/the%20orders/day=a%20b/one.parquet",
    ]
    assert [added["partitionValues"] for added in log["add"]] == [{"__file": "0"}, {"day": "a b", "__file": "1"}]
    assert written(state_of(FILE), table="s3a://lake/orders")["add"][0]["path"] == (
        "s3a://lake/orders/day=a%20b/one.parquet"
    )


def test_an_empty_partition_value_is_null(written):
    """In the log both are one value, and Spark would read the empty one as a text."""
    log = written(state_of({**FILE, "partitionValues": {"day": ""}}))
    assert log["add"][0]["partitionValues"] == {"day": None, "__file": "0"}


def test_an_empty_text_of_a_char_column_stays(written):
    """Delta's scan of the original pads it, and so does that of this table."""
    padded = {"__CHAR_VARCHAR_TYPE_STRING": "char(3)"}
    day = {"name": "date", "type": "string", "metadata": {"delta.columnMapping.physicalName": "day", **padded}}
    schema = {**SCHEMA, "fields": [*SCHEMA["fields"], day]}
    log = written(state_of({**FILE, "partitionValues": {"day": "", "other": ""}}, schema=schema))
    assert log["add"][0]["partitionValues"] == {"day": "", "other": None, "__file": "0"}


def test_the_number_is_a_partition_column_with_a_name_that_no_column_has(written):
    schema = {**SCHEMA, "fields": [*SCHEMA["fields"], {"name": "__file", "type": "string", "metadata": {}}]}
    log = written(state_of(FILE, schema=schema))
    assert log["metaData"]["partitionColumns"] == ["day", "___file"]
    assert json.loads(log["metaData"]["schemaString"])["fields"][-1]["name"] == "___file"


def test_mapped_columns_stay_mapped_and_the_number_is_one_more(written):
    properties = {
        "delta.columnMapping.mode": "name",
        "delta.columnMapping.maxColumnId": "7",
        "delta.appendOnly": "true",
    }
    log = written(state_of(FILE, protocol={"minReaderVersion": 2, "minWriterVersion": 5}, configuration=properties))
    assert log["metaData"]["configuration"] == {
        "delta.columnMapping.mode": "name",
        "delta.columnMapping.maxColumnId": "8",
    }
    added = json.loads(log["metaData"]["schemaString"])["fields"][-1]
    assert added["metadata"] == {"delta.columnMapping.id": 8, "delta.columnMapping.physicalName": "__file"}
    assert log["protocol"]["readerFeatures"] == ["columnMapping", "deletionVectors"]


def test_what_only_writers_need_is_left_out(written):
    """The protocol lists no feature of theirs."""
    nested = {"name": "x", "type": "long", "nullable": False, "metadata": {"delta.invariants": "{}", "comment": "x"}}
    field = {
        "name": "n",
        "type": {"type": "array", "elementType": {"type": "struct", "fields": [nested]}, "containsNull": True},
        "nullable": True,
        "metadata": {
            "delta.identity.start": 1,
            "delta.generationExpression": "1",
            "CURRENT_DEFAULT": "1",
            "delta.typeChanges": [],
        },
    }
    log = written(state_of(FILE, schema={**SCHEMA, "fields": [*SCHEMA["fields"], field]}))
    kept = json.loads(log["metaData"]["schemaString"])["fields"][1]
    assert kept["metadata"] == {"delta.typeChanges": []}
    assert kept["type"]["elementType"]["fields"][0] == {**nested, "nullable": True, "metadata": {"comment": "x"}}


@pytest.mark.parametrize(
    ("protocol", "features"),
    [
        ({"minReaderVersion": 1, "minWriterVersion": 2}, ["deletionVectors"]),
        (
            {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["typeWidening", "catalogManaged"]},
            ["deletionVectors", "typeWidening"],
        ),
    ],
)
def test_a_reader_needs_what_the_table_needs_without_its_catalog(written, protocol, features):
    log = written(state_of(FILE, protocol=protocol))
    assert log["protocol"] == {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": features,
        "writerFeatures": features,
    }


def test_the_file_of_a_deletion_vector_has_a_whole_uri(written):
    """The example of Delta's protocol."""
    vector = {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^", "offset": 4, "cardinality": 6}
    named = written(state_of({**FILE, "deletionVector": vector}))["add"][0]["deletionVector"]
    assert named == {
        "storageType": "p",
        "pathOrInlineDv": "file:/lake/the%20orders/ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin",
        "offset": 4,
        "cardinality": 6,
    }
    inline = {"storageType": "i", "pathOrInlineDv": "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L"}
    assert written(state_of({**FILE, "deletionVector": inline}))["add"][0]["deletionVector"] == inline


def test_a_second_writer_writes_the_same(tmp_path):
    location, state = tmp_path / "listed", state_of(FILE)
    write_numbered_log(str(location), "/lake/orders", state, [FILE["path"]], {})
    log = location / "_delta_log" / f"{0:020d}.json"
    first = log.read_bytes()
    write_numbered_log(str(location), "/lake/orders", state, [FILE["path"]], {})
    assert log.read_bytes() == first


@pytest.mark.parametrize("paths", [[], ["day=a%20b/one.parquet", "another"]])
def test_other_files_than_deltalake_finds_are_refused(tmp_path, paths):
    """I6: a file that is left out would be missing from the view."""
    with pytest.raises(TableLogError, match=rf"has 1 files, and deltalake reads {len(paths)} there"):
        write_numbered_log(str(tmp_path / "listed"), "/lake/orders", state_of(FILE), paths, {})
