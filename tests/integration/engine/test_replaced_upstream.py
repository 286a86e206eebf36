"""Upstreams that are replaced or altered, or that lose changes, between two epochs or during one (I6)."""

from __future__ import annotations

import shutil

import pyarrow as pa
import pytest

from airflow_backfill_provider.core import errors
from airflow_backfill_provider.core.epoch import crash_points
from airflow_backfill_provider.core.epoch.crash_points import CrashPoint
from tests.builders import write_table
from tests.integration.engine.lakehouse import Lakehouse

pytestmark = pytest.mark.spark


def test_a_table_that_replaced_the_upstream_under_a_pinned_epoch_is_not_read(numbers: Lakehouse) -> None:
    """The other table has the same columns, and the pinned version."""
    numbers.create(rate_limit=5)
    numbers.epoch()
    numbers.sql("INSERT INTO {upstream} VALUES (9, 'n9', 9)")
    barrier = numbers.inject()
    assert barrier is not None
    shutil.rmtree(numbers.on_disk(numbers.upstream_path))
    numbers.make_upstream("id BIGINT, name STRING, price DOUBLE")
    for number in range(5, 10):
        numbers.sql(f"INSERT INTO {{upstream}} VALUES ({number}, 'another', 0)")
    with pytest.raises(errors.UpstreamReplacedError, match="rebuild the job"):
        numbers.run(barrier)
    assert {row["id"] for row in numbers.view().collect()} == set(range(5))


def test_a_table_that_replaced_the_upstream_while_an_epoch_read_it_is_not_committed(numbers: Lakehouse) -> None:
    """The view holds rows of the other table, so no epoch continues with it."""
    numbers.create(rate_limit=5)
    barrier = numbers.inject()
    assert barrier is not None

    def replace(point: CrashPoint) -> None:
        if point is CrashPoint.AFTER_SNAPSHOT_COMMIT:
            shutil.rmtree(numbers.on_disk(numbers.upstream_path))
            write_table(numbers.upstream_path, {"id": pa.array([1])}, storage_options=numbers.storage_options)

    crash_points.install(replace)
    with pytest.raises(errors.UpstreamReplacedError, match="rebuild the job"):
        numbers.run(barrier)
    assert numbers.backfill.store.commits() == []


@pytest.mark.exhaustive
def test_upstream_replaced_by_another_table(numbers: Lakehouse) -> None:
    numbers.create(rate_limit=5)
    numbers.epoch()
    shutil.rmtree(numbers.on_disk(numbers.upstream_path))
    numbers.make_upstream("id BIGINT, name STRING, price DOUBLE")
    with pytest.raises(errors.UpstreamReplacedError, match="rebuild the job"):
        numbers.epoch()


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE {upstream} RENAME COLUMN name TO title",
        "ALTER TABLE {upstream} DROP COLUMN name",
    ],
)
def test_used_column_gone(lakehouse: Lakehouse, statement: str) -> None:
    lakehouse.make_upstream(
        "id BIGINT, name STRING, unused INT",
        properties={"delta.enableChangeDataFeed": "true", "delta.columnMapping.mode": "name"},
    )
    lakehouse.sql("INSERT INTO {upstream} SELECT id, 'a', 1 FROM range(9)")
    lakehouse.create(rate_limit=5, query="SELECT id, name FROM upstream")
    lakehouse.epoch()
    lakehouse.sql(statement)
    with pytest.raises(errors.UpstreamSchemaChangedError, match="'name' is gone"):
        lakehouse.epoch()


def test_changes_vacuumed_before_an_epoch_read_them(numbers: Lakehouse) -> None:
    numbers.create(rate_limit=5)
    numbers.epoch()
    numbers.sql("UPDATE {upstream} SET name = 'x' WHERE id = 1")
    for file in (numbers.on_disk(numbers.upstream_path) / "_change_data").glob("*.parquet"):
        file.unlink()
    with pytest.raises(errors.ChangeFeedGapError, match="gone"):
        numbers.epoch()
    assert numbers.view().count() == 5


@pytest.mark.exhaustive
def test_change_feed_switched_off_between_epochs(numbers: Lakehouse) -> None:
    numbers.create(rate_limit=5)
    numbers.epoch()
    numbers.sql("ALTER TABLE {upstream} SET TBLPROPERTIES (delta.enableChangeDataFeed = false)")
    numbers.sql("UPDATE {upstream} SET name = 'x' WHERE id = 1")
    with pytest.raises(errors.ChangeDataFeedDisabledError):
        numbers.epoch()
    numbers.sql("ALTER TABLE {upstream} SET TBLPROPERTIES (delta.enableChangeDataFeed = true)")
    with pytest.raises(errors.ChangeFeedGapError):
        numbers.epoch()
    assert numbers.view().count() == 5
