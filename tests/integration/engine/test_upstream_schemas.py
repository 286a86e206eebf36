"""Upstreams with schemas that change, or that have more than the types of columns."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_backfill_provider.core import errors
from tests.integration.engine.lakehouse import CHANGE_DATA_FEED, Lakehouse
from tests.variants import exhaustive

pytestmark = pytest.mark.spark

MAPPED = {**CHANGE_DATA_FEED, "delta.columnMapping.mode": "name"}
BOTH = pytest.mark.parametrize("strategy", [exhaustive("no_shuffle"), "arrangement"])


class LongLog:
    """
    A table of many commits, each of one row, written by hand: Spark would take a second for each.

    :param renames: the unused column is renamed back and forth, every third commit.
    """

    def __init__(self, path: str, *, renames: bool) -> None:
        self._path, self._renames, self._id = Path(path), renames, str(uuid.uuid4())
        (self._path / "_delta_log").mkdir(parents=True)
        feature = "columnMapping" if renames else "identityColumns"
        protocol = {
            "minReaderVersion": 2,
            "minWriterVersion": 7,
            "writerFeatures": ["changeDataFeed", "appendOnly", "invariants", feature],
        }
        self._commit(0, [{"protocol": protocol}, self._metadata(0)])

    def insert(self, first: int, last: int) -> None:
        """Commit rows, one by one; each has the number of its commit."""
        names = ["p_id", "p_name", "p_note"] if self._renames else ["id", "name", "note"]
        for version in range(first, last + 1):
            file = self._path / f"f{version}.parquet"
            row = pa.table(dict(zip(names, [[version], [f"n{version}"], ["x"]], strict=True)))
            fields = [
                pa.field(name, row.field(name).type, metadata={"PARQUET:field_id": str(number)})
                for number, name in enumerate(names, 1)
            ]
            pq.write_table(row.cast(pa.schema(fields)), file)
            statistics = {
                "numRecords": 1,
                "minValues": {names[0]: version},
                "maxValues": {names[0]: version},
                "nullCount": dict.fromkeys(names, 0),
            }
            added = {
                "path": file.name,
                "partitionValues": {},
                "size": file.stat().st_size,
                "modificationTime": 1,
                "dataChange": True,
                "stats": json.dumps(statistics),
            }
            metadata = [] if self._renames and version % 3 else [self._metadata(version)]
            self._commit(version, [*metadata, {"add": added}])

    def _metadata(self, version: int) -> dict[str, object]:
        identity = {"start": 1, "step": 1, "highWaterMark": version, "allowExplicitInsert": True}
        note = "remark" if self._renames and version % 2 else "note"
        columns = [("id", "long", "p_id"), ("name", "string", "p_name"), (note, "string", "p_note")]
        fields = [
            {
                "name": name,
                "type": kind,
                "nullable": True,
                "metadata": {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": stored}
                if self._renames
                else {f"delta.identity.{key}": value for key, value in identity.items() if name == "id"},
            }
            for number, (name, kind, stored) in enumerate(columns, 1)
        ]
        mapping = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "3"} if self._renames else {}
        return {
            "metaData": {
                "id": self._id,
                "format": {"provider": "parquet", "options": {}},
                "schemaString": json.dumps({"type": "struct", "fields": fields}),
                "partitionColumns": [],
                "configuration": {**CHANGE_DATA_FEED, **mapping},
                "createdTime": 1,
            }
        }

    def _commit(self, version: int, actions: list[dict[str, object]]) -> None:
        info = {"commitInfo": {"timestamp": 1_700_000_000_000 + version * 1000, "operation": "WRITE"}}
        lines = [json.dumps(action) for action in (info, *actions)]
        (self._path / "_delta_log" / f"{version:020d}.json").write_text("\n".join(lines) + "\n", encoding="utf-8")


@pytest.mark.exhaustive
@pytest.mark.parametrize("renames", [False, True], ids=["identity", "renames"])
@pytest.mark.parametrize("commits", [60, 1_000])
def test_a_window_of_many_schemas_is_one_feed(lakehouse: Lakehouse, commits: int, renames: bool) -> None:
    """Every insert into a table with an identity column changes the schema's metadata."""
    log = LongLog(lakehouse.upstream_path, renames=renames)
    log.insert(1, 6)
    lakehouse.create(query="SELECT id, name FROM upstream")
    lakehouse.epoch()
    log.insert(7, 6 + commits)
    lakehouse.finish()
    assert lakehouse.view().count() == 6 + commits
    lakehouse.assert_equals_query("SELECT id, name FROM {upstream}")


@pytest.mark.exhaustive
@BOTH
def test_the_view_does_not_inherit_properties_of_the_upstreams_columns(lakehouse: Lakehouse, strategy: str) -> None:
    """Only comments are kept: no defaults, identity, generated columns, CHAR, NOT NULL; a VARCHAR may be lengthened."""
    lakehouse.make_upstream(
        "code CHAR(4) NOT NULL COMMENT 'key', id BIGINT GENERATED BY DEFAULT AS IDENTITY, name STRING DEFAULT 'none', "
        "short VARCHAR(3), twice BIGINT GENERATED ALWAYS AS (amount * 2), amount BIGINT, "
        "nested STRUCT<c: CHAR(3) COMMENT 'x'>",
        {**CHANGE_DATA_FEED, "delta.feature.allowColumnDefaults": "supported"},
    )
    insert = (
        "INSERT INTO {{upstream}} (code, short, amount, nested) "
        "SELECT concat('k', id), 'abc', id, named_struct('c', 'c') FROM range({}, {})"
    )
    lakehouse.sql(insert.format(0, 6))
    query = "SELECT *, code = 'k1' AS is_one FROM upstream"
    lakehouse.create(key=["code"], rate_limit=4, strategy=strategy, query=query)
    lakehouse.epoch()
    lakehouse.sql(insert.format(6, 8))
    lakehouse.sql("DELETE FROM {upstream} WHERE amount IN (1, 2, 5)")
    lakehouse.sql("ALTER TABLE {upstream} ALTER COLUMN short TYPE VARCHAR(9)")
    lakehouse.sql("INSERT INTO {upstream} (code, short, amount) VALUES ('k1', 'longer', 1), ('k2', 'longest', 2)")
    lakehouse.finish()
    lakehouse.assert_equals_query("SELECT *, code = 'k1' AS is_one FROM {upstream}")
    lakehouse.assert_truth()
    properties = {field.name: field.metadata for field in lakehouse.view().schema.fields if field.metadata}
    assert properties == {"code": {"comment": "key"}}


@pytest.mark.exhaustive
@BOTH
def test_new_fields_of_a_nested_column_are_ignored_like_new_columns(lakehouse: Lakehouse, strategy: str) -> None:
    """The query uses the fields that the column had when the job was created."""
    lakehouse.make_upstream("id BIGINT, s STRUCT<a: BIGINT>, l ARRAY<STRUCT<a: BIGINT>>, m MAP<STRING, STRUCT<a: INT>>")
    insert = (
        "INSERT INTO {{upstream}} SELECT id, IF(id = 3, NULL, named_struct('a', id {0})), array(named_struct('a', id "
        "{0})), map('k', named_struct('a', 1 {0})) FROM range({1}, {2})"
    )
    lakehouse.sql(insert.format("", 0, 6))
    query = "SELECT id, s, s.a, l, m FROM upstream"
    lakehouse.create(rate_limit=4, strategy=strategy, query=query)
    lakehouse.epoch()
    for column in ("s.b", "l.element.b", "m.value.b"):
        lakehouse.sql(f"ALTER TABLE {{upstream}} ADD COLUMN {column} STRING")
    lakehouse.sql("ALTER TABLE {upstream} ALTER COLUMN s.b FIRST")
    lakehouse.sql("INSERT INTO {upstream} SELECT id, named_struct('b', 'new', 'a', id), NULL, NULL FROM range(6, 8)")
    lakehouse.sql("UPDATE {upstream} SET s.a = 100, s.b = 'b' WHERE id IN (1, 3)")
    lakehouse.finish()
    lakehouse.assert_truth()
    assert [tuple(row) for row in lakehouse.view().selectExpr("id", "to_json(s)", "a").orderBy("id").collect()] == [
        (0, '{"a":0}', 0),
        (1, '{"a":100}', 100),
        (2, '{"a":2}', 2),
        (3, '{"a":100}', 100),
        (4, '{"a":4}', 4),
        (5, '{"a":5}', 5),
        (6, '{"a":6}', 6),
        (7, '{"a":7}', 7),
    ]


@pytest.mark.exhaustive
@BOTH
def test_columns_may_have_any_name_that_delta_allows(lakehouse: Lakehouse, strategy: str) -> None:
    """The upstream has such names with column mapping; the view gets column mapping, too."""
    odd = "`a b`", "`x,y;z={}()`", "`two\nlines\tand a tab`"
    lakehouse.make_upstream(
        f"`the id` BIGINT, {odd[0]} BIGINT, {odd[1]} BIGINT, {odd[2]} STRUCT<`in side`: BIGINT>", MAPPED
    )
    insert = "INSERT INTO {{upstream}} SELECT id, id, id, named_struct('in side', id) FROM range({}, {})"
    lakehouse.sql(insert.format(0, 6))
    query = f"SELECT {', '.join(odd)}, {odd[0]} + 1 AS `one more` FROM upstream WHERE `the id` <> 5"
    lakehouse.create(key=["the id"], rate_limit=4, strategy=strategy, query=query)
    lakehouse.epoch()
    lakehouse.sql(insert.format(6, 8))
    lakehouse.sql("UPDATE {upstream} SET `a b` = 100 WHERE `the id` IN (1, 2)")
    lakehouse.finish()
    lakehouse.assert_equals_query(query.replace("FROM upstream", "FROM {upstream}"))
    lakehouse.assert_truth()
    lakehouse.rebuild(key=["the id"], strategy=strategy, query="SELECT `a b` AS plain FROM upstream")
    lakehouse.finish()
    lakehouse.assert_equals_query("SELECT `a b` AS plain, `the id` AS `__key_the id` FROM {upstream}")


def test_names_that_a_view_without_column_mapping_cannot_have_are_refused_at_creation(lakehouse: Lakehouse) -> None:
    """I6."""
    lakehouse.make_upstream("id BIGINT", CHANGE_DATA_FEED)
    with pytest.raises(errors.InvalidJobError, match="without column mapping; give it an alias"):
        lakehouse.create(
            query="SELECT id AS `the id` FROM upstream", table_properties={"delta.columnMapping.mode": "none"}
        )


@pytest.mark.exhaustive
def test_a_constraint_that_the_views_owner_added_holds_and_its_error_quotes_no_row(lakehouse: Lakehouse) -> None:
    """An epoch with a row that breaks it names the constraint, and runs once it is dropped."""
    lakehouse.make_upstream("id BIGINT", CHANGE_DATA_FEED)
    lakehouse.sql("INSERT INTO {upstream} SELECT id FROM range(4)")
    lakehouse.create(rate_limit=2)
    lakehouse.epoch()
    view = lakehouse.view_name
    lakehouse.sql(f"ALTER TABLE {view} ADD CONSTRAINT small CHECK (id < 100)")
    lakehouse.finish()
    lakehouse.sql("INSERT INTO {upstream} VALUES (4711)")
    with pytest.raises(errors.MaterializedViewError, match="the constraint small of the materialized view") as caught:
        lakehouse.epoch()
    assert "4711" not in str(caught.value)
    lakehouse.sql(f"ALTER TABLE {view} DROP CONSTRAINT small")
    lakehouse.finish()
    lakehouse.assert_equals_query("SELECT * FROM {upstream}")


@pytest.mark.exhaustive
@BOTH
@pytest.mark.parametrize("feature", ["plain", "mapped", "vectors", "variants"])
def test_features_that_come_and_go_between_epochs(lakehouse: Lakehouse, feature: str, strategy: str) -> None:
    """Column mapping and deletion vectors are switched on between epochs; values are variants."""
    variants = feature == "variants"
    properties = {**CHANGE_DATA_FEED, "delta.enableDeletionVectors": str(feature == "vectors").lower()}
    lakehouse.make_upstream(f"id BIGINT, name STRING, v {'VARIANT' if variants else 'STRING'}", properties)
    value = "parse_json(concat('[', id, ']'))" if variants else "'v'"
    insert = f"INSERT INTO {{{{upstream}}}} SELECT id, concat('N', id), {value} FROM range({{}}, {{}})"
    lakehouse.sql(insert.format(0, 8))
    lakehouse.create(rate_limit=5, strategy=strategy)
    lakehouse.epoch()
    lakehouse.sql("UPDATE {upstream} SET name = 'x' WHERE id IN (1, 6)")
    switched = {
        "mapped": "('delta.columnMapping.mode' = 'name')",
        "vectors": "('delta.enableDeletionVectors' = 'false')",
    }.get(feature, "('delta.enableDeletionVectors' = 'true')")
    lakehouse.sql(f"ALTER TABLE {{upstream}} SET TBLPROPERTIES {switched}")
    lakehouse.sql("DELETE FROM {upstream} WHERE id IN (2, 7)")
    lakehouse.sql("UPDATE {upstream} SET name = 'y' WHERE id = 3")
    lakehouse.finish()
    lakehouse.assert_truth()
