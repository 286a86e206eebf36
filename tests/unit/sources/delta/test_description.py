"""The description of one version of a Delta table, and what a job refuses to find in it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Schema, write_deltalake

from airflow_backfill_provider.core.errors import (
    ChangeDataFeedDisabledError,
    UpstreamReplacedError,
    UpstreamSchemaChangedError,
)
from airflow_backfill_provider.core.job.upstream import KeyColumn
from airflow_backfill_provider.core.scan.keys import KeyField, KeyOrder
from airflow_backfill_provider.sources.delta.source import DeltaSource
from airflow_backfill_provider.sources.delta.versions import offset_of
from tests.builders import (
    write_table,
)
from tests.unit.sources.delta.delta_tables import as_created, mapped


def test_a_version_is_described_by_the_log_alone(orders):
    orders.add(1)
    orders.add(2)
    for file in Path(orders.path).glob("*.parquet"):
        file.unlink()
    described = orders.table.at()
    assert (described.offset.number, described.change_data_feed) == (1, True)
    assert described.types == {"id": "long", "status": "string", "amount": "long"}
    assert described.table_id == str(DeltaTable(orders.path).metadata().id)
    assert orders.table.latest().number == 1
    assert orders.table.at(offset_of(0)).offset == offset_of(0)


def test_nested_types_are_described_so_that_a_change_shows(tmp_path):
    one = write_table(tmp_path / "a", {"s": pa.array([{"x": 1}]), "l": pa.array([[1]])}).at().types
    other = write_table(tmp_path / "b", {"s": pa.array([{"y": 1}]), "l": pa.array([["a"]])}).at().types
    assert json.loads(one["s"])["type"] == "struct"
    assert one["s"] != other["s"]
    assert one["l"] != other["l"]


def test_the_table_of_the_creation_is_accepted_also_with_more_columns(orders):
    orders.add(1)
    created = as_created(orders.table.at())
    DeltaTable(orders.path).alter.add_columns(
        Schema.from_json(
            '{"type":"struct","fields":[{"name":"note","type":"string","nullable":true,"metadata":{}}]}'
        ).fields
    )
    orders.table.at().require_as_created(created)


def test_another_table_at_the_path_is_refused(orders):
    """I6: a window of the old table would return the new table's rows."""
    orders.add(1)
    created = as_created(orders.table.at())
    shutil.rmtree(orders.path)
    orders.add(1)
    with pytest.raises(UpstreamReplacedError, match="rebuild the job") as caught:
        orders.table.at().require_as_created(created)
    assert created.table_id in str(caught.value)
    with pytest.raises(UpstreamReplacedError):
        orders.table.at().require_same_table(created)


def test_columns_that_are_gone_or_of_another_type_are_all_named(orders):
    """I6."""
    orders.add(1)
    described = orders.table.at()
    created = as_created(described, id="integer", status="string", customer="long")
    with pytest.raises(UpstreamSchemaChangedError, match="as of version 0") as caught:
        described.require_as_created(created)
    assert "column 'id' was integer and is long; column 'customer' is gone" in str(caught.value)
    assert "status" not in str(caught.value)
    assert "adapt the job's query, and run airflow-backfill change, or rebuild the job" in str(caught.value)


def test_a_table_without_change_data_feed_gets_the_statement_that_switches_it_on(tmp_path):
    """I6."""
    path = tmp_path / "a `quoted` table"
    write_deltalake(str(path), pa.table({"id": [1]}))
    described = DeltaSource(str(path)).at()
    with pytest.raises(ChangeDataFeedDisabledError) as caught:
        described.require_changes()
    quoted = str(path).replace("`", "``")
    assert f"ALTER TABLE delta.`{quoted}` SET TBLPROPERTIES (delta.enableChangeDataFeed = true)" in str(caught.value)
    described.require_as_created(as_created(described))


@pytest.mark.parametrize(("value", "on"), [("true", True), ("TRUE", True), ("false", False)])
def test_the_feed_is_on_as_of_the_version_looked_at(orders, value, on):
    orders.add(1)
    DeltaTable(orders.path).alter.set_table_properties({"delta.enableChangeDataFeed": value})
    assert orders.table.at().change_data_feed is on
    assert orders.table.at(offset_of(0)).change_data_feed


def test_a_nested_column_that_was_replaced_is_another_type(tmp_path):
    def typed(stored):
        part = pa.field("street", pa.string(), metadata={"stored": stored})
        return mapped(tmp_path / stored, ("address", pa.struct([part]), "col-1")).at().types["address"]

    assert typed("col-2") != typed("col-3")


def test_a_comment_on_a_nested_column_changes_no_type(tmp_path):
    def typed(comment, *, nullable=True, name="street"):
        part = pa.field(name, pa.string(), nullable=nullable, metadata={"comment": comment})
        path = tmp_path / f"{comment} {nullable} {name}"
        schema = pa.schema([("id", pa.int64()), ("address", pa.list_(pa.struct([part])))])
        DeltaTable.create(str(path), schema, mode="ignore")
        return DeltaSource(str(path)).at().types["address"]

    assert typed("x") == typed("y") == typed("z", nullable=False)
    assert typed("x") != typed("x", name="town")


def test_a_constraint_on_the_values_of_a_map_changes_no_type(tmp_path):
    def typed(*, nullable):
        path = tmp_path / str(nullable)
        value = pa.field("value", pa.int64(), nullable=nullable)
        DeltaTable.create(str(path), pa.schema([("amounts", pa.map_(pa.string(), value))]))
        return DeltaSource(str(path)).at().types["amounts"]

    assert typed(nullable=True) == typed(nullable=False)


def test_a_key_column_has_the_type_of_the_version_and_the_direction_of_the_job(orders):
    orders.add(1)
    key = [KeyColumn(column="id", descending=True), KeyColumn(column="status")]
    assert orders.table.at().key_order(key) == KeyOrder(
        (KeyField(name="id", type="long", descending=True), KeyField(name="status", type="string"))
    )
