"""What a table of Debezium's events says about rows and changes, without a job."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyspark.sql import DataFrame, SparkSession

from airflow_backfill_provider.core.errors import ChangeDataFeedDisabledError, UpstreamError
from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.sources.debezium import Debezium
from airflow_backfill_provider.sources.debezium.definition import DebeziumUpstream
from airflow_backfill_provider.sources.debezium.source import DebeziumSource
from airflow_backfill_provider.sources.reader import CHANGE_OFFSET, CHANGE_TYPE
from airflow_backfill_provider.spark.spark_errors import epoch_errors
from tests.debezium_events import (
    COLUMNS,
    DELETE,
    INSERT,
    KEY,
    READ,
    UPDATE,
    Event,
    EventTable,
    FlattenedEventTable,
    History,
    Key,
    Row,
    row,
    rows_of,
)
from tests.variants import exhaustive

pytestmark = pytest.mark.spark


def applied(rows: Mapping[Key, Row], changes: list[dict[str, Any]]) -> dict[Key, Row]:
    """Apply changes strictly: each must fit to the rows."""
    after = dict(rows)
    for change in sorted(changes, key=lambda change: (change[CHANGE_OFFSET], "post" in change[CHANGE_TYPE])):
        at = tuple(change[name] for name in KEY)
        row = {name: change[name] for name in COLUMNS.names}
        match change[CHANGE_TYPE]:
            case "insert":
                assert at not in after
                after[at] = row
            case "update_preimage":
                assert at in after
            case "update_postimage":
                assert at in after
                after[at] = row
            case "delete":
                del after[at]
    return after


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", [EventTable, FlattenedEventTable])
@pytest.mark.parametrize("seed", range(1, 6))
def test_changes_lead_from_rows_to_rows(spark: SparkSession, lake: Path, kind: type[EventTable], seed: int) -> None:
    table = kind(str(lake / "events"), COLUMNS, KEY)
    table.create()
    history = History(seed)
    history.begin(table)
    landed = [len(table.landed)]
    for _ in range(4):
        for _ in range(history.chance.randrange(25)):
            history.change()
        table.land(*history.batch())
        landed.append(len(table.landed))
    source = DebeziumSource(DebeziumUpstream(path=table.path, key=list(KEY)))
    reader = Debezium().reader(spark, source)
    truths = [rows_of(table.landed[:count], KEY) for count in landed]
    for version, truth in enumerate(truths, 1):
        found = [row.asDict() for row in reader.rows(Offset(version)).collect()]
        assert {tuple(row[name] for name in KEY): row for row in found} == truth
    for after, up_to in ((1, 2), (2, 3), (3, 5), (1, 5)):
        changes = [row.asDict() for row in reader.changes(Offset(after), Offset(up_to)).collect()]
        assert applied(truths[after - 1], changes) == truths[up_to - 1], (after, up_to)


LONG = "__debezium_unavailable_value"
ONE = row(1, "long")
MOVED = {**ONE, "region": "m"}


def source_of(lake: Path, *batches: list[Event], **fields: Any) -> DebeziumSource:
    """Land batches, each in one commit."""
    table = EventTable(str(lake / "events"), COLUMNS, KEY)
    table.create()
    for batch in batches:
        table.land(*batch)
    return DebeziumSource(DebeziumUpstream(path=table.path, key=list(KEY), **fields))


def names_of(frame: DataFrame) -> list[Any]:
    return [found["name"] for found in frame.collect()]


@pytest.mark.exhaustive
def test_a_long_value_that_did_not_change_is_that_of_the_row_before(spark: SparkSession, lake: Path) -> None:
    source = source_of(
        lake,
        [Event(kind=READ, lsn=1, after=ONE)],
        [Event(kind=UPDATE, lsn=3, after=row(1, LONG)), Event(kind=UPDATE, lsn=2, after=row(1, None))],
        [Event(kind=UPDATE, lsn=4, after=row(1, "new")), Event(kind=UPDATE, lsn=5, after=row(1, LONG))],
    )
    reader = Debezium().reader(spark, source)
    assert [names_of(reader.rows(Offset(version))) for version in (1, 2, 3)] == [["long"], [None], ["new"]]
    images = reader.changes(Offset(1), Offset(3)).filter(f"{CHANGE_TYPE} = 'update_postimage'").orderBy(CHANGE_OFFSET)
    assert names_of(images)[-1] == "new"


@pytest.mark.exhaustive
def test_a_row_that_comes_from_another_key_has_long_values_of_its_own(spark: SparkSession, lake: Path) -> None:
    """What the key had before is not what the row has."""
    move = [Event(kind=DELETE, lsn=9, before=MOVED), Event(kind=INSERT, lsn=9, after=row(1, LONG))]
    before = [Event(kind=READ, lsn=1, after=ONE), Event(kind=READ, lsn=1, after=MOVED)]
    source = source_of(lake, before, [Event(kind=DELETE, lsn=8, before=ONE)], move)
    reader = Debezium().reader(spark, source)
    for frame in (reader.rows(Offset(3)), reader.changes(Offset(2), Offset(3)), reader.changes(Offset(1), Offset(3))):
        with pytest.raises(UpstreamError, match="REPLICA IDENTITY FULL"), epoch_errors("epoch 1"):
            frame.collect()


@pytest.mark.parametrize(
    ("event", "message"),
    [
        exhaustive(Event(kind="x", lsn=9, after=ONE), "unknown kind"),
        exhaustive(Event(kind=UPDATE, lsn=None, after=ONE), r"no position \(source.lsn\)"),
        exhaustive(Event(kind=DELETE, lsn=9), r"no key \(region, id\)"),
        exhaustive(Event(kind=INSERT, lsn=9, after={**ONE, "id": None}), r"no key \(region, id\)"),
        (Event(kind=UPDATE, lsn=4, after=ONE, time=10_000_000), "earlier position .* later time"),
    ],
)
def test_events_that_mean_nothing_are_refused(spark: SparkSession, lake: Path, event: Event, message: str) -> None:
    """I6: never left out."""
    source = source_of(lake, [Event(kind=READ, lsn=5, after=ONE, time=1000)], [event])
    with pytest.raises(UpstreamError, match=message), epoch_errors("epoch 1"):
        Debezium().reader(spark, source).changes(Offset(1), Offset(2)).collect()


@pytest.mark.exhaustive
def test_messages_and_tombstones_are_no_changes(spark: SparkSession, lake: Path) -> None:
    source = source_of(lake, [Event(kind=READ, lsn=5, after=ONE)], [Event(kind="m", lsn=6), Event(kind=None, lsn=None)])
    assert Debezium().reader(spark, source).changes(Offset(1), Offset(2)).count() == 0
    assert Debezium().reader(spark, source).rows(Offset(2)).count() == 1


@pytest.mark.exhaustive
def test_a_table_of_events_whose_events_are_changed_is_refused(spark: SparkSession, lake: Path) -> None:
    source = source_of(lake, [Event(kind=READ, lsn=5, after=ONE), Event(kind=READ, lsn=5, after=MOVED)])
    spark.sql(f"DELETE FROM delta.`{source.location.replace('`', '``')}` WHERE after.region = 'm'")
    with pytest.raises(UpstreamError, match="not append-only"), epoch_errors("epoch 1"):
        Debezium().reader(spark, source).changes(Offset(1), Offset(2)).collect()


def test_a_table_of_events_without_a_change_data_feed_is_refused(lake: Path) -> None:
    write_deltalake(
        str(lake / "events"), pa.table({"op": ["c"], "after": [ONE], "before": [ONE], "source": [{"lsn": 1}]})
    )
    source = DebeziumSource(DebeziumUpstream(path=str(lake / "events"), key=list(KEY)))
    with pytest.raises(ChangeDataFeedDisabledError, match="ALTER TABLE"):
        source.at().require_changes()
