"""A Delta table of Debezium's events becomes a view of the rows that the events are about."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_backfill_provider.applications.connect import connected
from airflow_backfill_provider.applications.connect_engine import ConnectEngine
from airflow_backfill_provider.core.remote import Remote
from airflow_backfill_provider.core.scan.progress import Completed, InProgress
from tests.debezium_events import (
    COLUMNS,
    KEY,
    EventTable,
    FlattenedEventTable,
    History,
    texts,
)
from tests.integration.engine.lakehouse import Lakehouse
from tests.variants import exhaustive

pytestmark = pytest.mark.spark


class Events(Lakehouse):
    """A table of events, and a job over it."""

    def __init__(self, spark: SparkSession, folder: Path, kind: type[EventTable] = EventTable) -> None:
        super().__init__(spark, folder)
        self.table = kind(str(folder / "events"), COLUMNS, KEY)

    def create(self, **fields: Any) -> Any:
        upstream = {"path": self.table.path, "key": list(KEY), **fields.pop("debezium", {})}
        return super().create(upstream={"debezium": upstream}, **fields)

    def rows(self) -> list[tuple[Any, ...]]:
        return sorted(tuple(row) for row in self.view().select("region", "id", "name", "price").collect())


@pytest.fixture
def lakehouse(spark: SparkSession, lake: Path) -> Events:
    events = Events(spark, lake)
    events.table.create()
    return events


def read_so_far(events: Events, rows: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the rows that the committed state says were read, of a job whose vnodes share one position."""
    settings, progress = events.backfill.settings(), events.backfill.store.state().vnodes[0]
    if isinstance(progress, Completed):
        return rows
    if not isinstance(progress, InProgress):
        return []
    order = settings.key_order
    return [found for found in rows if order.compare((found["region"], found["id"]), progress.position) <= 0]


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("kind", "strategy"),
    [
        (EventTable, "arrangement"),
        exhaustive(FlattenedEventTable, "no_shuffle"),
        exhaustive(EventTable, "no_shuffle"),
        exhaustive(FlattenedEventTable, "arrangement"),
    ],
)
@pytest.mark.parametrize("seed", [1, *(exhaustive(seed) for seed in range(2, 4))])
def test_random_histories(spark: SparkSession, lake: Path, kind: type[EventTable], strategy: str, seed: int) -> None:
    """I1: after each epoch, however events come."""
    events = Events(spark, lake, kind)
    events.table.create()
    history = History(seed)
    history.begin(events.table)
    events.create(strategy=strategy, rate_limit=9)
    for _ in range(8):
        for _ in range(history.chance.randrange(25)):
            history.change()
        events.table.land(*history.batch())
        if events.epoch() is not None:
            truth = list(events.table.rows().values())
            if events.backfill.store.state().completed or strategy == "no_shuffle":
                assert events.rows() == texts(read_so_far(events, truth))
    events.table.land(*history.waiting)
    events.finish()
    assert events.rows() == texts(history.rows.values())
    assert events.rows() == texts(events.table.rows().values())
    events.assert_truth()


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", [EventTable, FlattenedEventTable])
@pytest.mark.parametrize("strategy", ["no_shuffle", "arrangement"])
def test_a_warm_engine_reads_events(
    spark: SparkSession, spark_remote: str, lake: Path, kind: type[EventTable], strategy: str
) -> None:
    """I1: Spark Connect refuses some plans that Spark takes. It creates the job, runs its epochs, and compares."""
    events = Events(spark, lake, kind)
    events.table.create()
    history = History(8)
    history.begin(events.table)
    with connected(Remote.parse(spark_remote), what="events") as connection:
        events.engine = ConnectEngine(connection, None, purpose="epoch")
        events.create(strategy=strategy, rate_limit=30)
        assert events.epoch()
        for _ in range(20):
            history.change()
        events.table.land(*history.batch())
        events.finish()
        events.table.land(*history.waiting)
        events.finish()
        events.assert_truth()
    assert events.rows() == texts(history.rows.values())
