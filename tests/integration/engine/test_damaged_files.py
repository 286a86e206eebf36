"""Damaged files are refused by a named error, and texts that look like variables are read as they are (I6)."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_backfill_provider.core import errors
from airflow_backfill_provider.strategies.arrangement.location import location_of
from tests.integration.engine.lakehouse import CHANGE_DATA_FEED, Lakehouse

pytestmark = pytest.mark.spark


@pytest.fixture
def numbers(lakehouse: Lakehouse) -> Lakehouse:
    """An upstream of thirty rows."""
    lakehouse.make_upstream("id BIGINT, name STRING")
    lakehouse.sql("INSERT INTO {upstream} SELECT id, concat('n', id) FROM range(30)")
    return lakehouse


def damage(folder: str) -> None:
    """Write something else into all data files."""
    for file in Path(folder).rglob("*.parquet"):
        if "_delta_log" not in file.parts:
            (file.parent / f".{file.name}.crc").unlink(missing_ok=True)
            file.write_bytes(b"no Parquet at all" * 20)


@pytest.mark.exhaustive
def test_a_damaged_data_file_of_the_upstream_is_named(numbers: Lakehouse) -> None:
    numbers.create()
    barrier = numbers.inject()
    assert barrier is not None
    damage(numbers.upstream_path)
    with pytest.raises(errors.DataFileError, match=r"epoch 1 of job orders_view cannot read a data file \(.*parquet"):
        numbers.run(barrier)


@pytest.mark.exhaustive
def test_a_damaged_arrangement_is_damaged_state(numbers: Lakehouse) -> None:
    settings = numbers.create(strategy="arrangement")
    barrier = numbers.inject()
    assert barrier is not None
    damage(location_of(settings))
    with pytest.raises(errors.StateError, match="epoch 1 of job orders_view cannot read the arrangement at .*rebuild"):
        numbers.run(barrier)
    numbers.rebuild(strategy="arrangement")
    numbers.finish()
    numbers.assert_equals_query("SELECT * FROM {upstream}")


@pytest.mark.exhaustive
def test_a_text_like_a_variable_means_itself(lakehouse: Lakehouse) -> None:
    """I1: in a folder's name, a column's name and a literal."""
    lakehouse.upstream_path = str(lakehouse.folder / "${env:HOME}")
    lakehouse.view_path = str(lakehouse.folder / "view ${system:user.dir}")
    lakehouse.spark.conf.set("spark.sql.variable.substitute", "false")
    lakehouse.make_upstream("id BIGINT, `${env:HOME}` STRING", {**CHANGE_DATA_FEED, "delta.columnMapping.mode": "name"})
    lakehouse.sql("INSERT INTO {upstream} SELECT id, '${env:HOME}' FROM range(9)")
    lakehouse.create(query="SELECT id, `${env:HOME}` AS name, '${spark:spark.app.name}' AS text FROM upstream")
    lakehouse.finish()
    rows = lakehouse.view().collect()
    assert len(rows) == 9
    assert {(row["name"], row["text"]) for row in rows} == {("${env:HOME}", "${spark:spark.app.name}")}


@pytest.mark.exhaustive
def test_a_column_that_was_dropped_and_added_again_is_another_column(lakehouse: Lakehouse) -> None:
    """I6: it has the old name and type, and none of the old values."""
    lakehouse.make_upstream("id BIGINT, name STRING", {**CHANGE_DATA_FEED, "delta.columnMapping.mode": "name"})
    lakehouse.sql("INSERT INTO {upstream} SELECT id, concat('n', id) FROM range(30)")
    lakehouse.create(rate_limit=10)
    lakehouse.epoch()
    lakehouse.sql("ALTER TABLE {upstream} DROP COLUMN name")
    lakehouse.sql("ALTER TABLE {upstream} ADD COLUMN name STRING")
    with pytest.raises(errors.UpstreamSchemaChangedError, match="column 'name' was dropped and created again"):
        lakehouse.inject()
    lakehouse.rebuild()
    lakehouse.finish()
    lakehouse.assert_equals_query("SELECT * FROM {upstream}")
