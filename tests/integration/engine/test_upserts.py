"""An append-only Delta table of upserts becomes a view of the newest row of each key."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from airflow_backfill_provider.core.errors import BackfillError, UpstreamError, UpstreamSchemaChangedError
from airflow_backfill_provider.core.job.sql import quote
from airflow_backfill_provider.jobs.verification import verifier
from airflow_backfill_provider.sources.event_table.events import KeyedEvents
from airflow_backfill_provider.sources.shared.by_key import column
from tests.integration.engine.lakehouse import Lakehouse
from tests.variants import exhaustive

pytestmark = pytest.mark.spark

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("name", pa.string()),
        ("gone", pa.bool_()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("headers", pa.map_(pa.string(), pa.string())),
    ]
)
KEYS = [f"key {number}" for number in range(12)]


class Log(Lakehouse):
    """A table of upserts, and a job over it."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        super().__init__(spark, folder)
        self.path = str(folder / "log")
        DeltaTable.create(self.path, schema=SCHEMA, configuration={"delta.enableChangeDataFeed": "true"})
        self.landed: list[dict[str, Any]] = []

    def create(self, **fields: Any) -> Any:
        upstream = {
            "path": self.path,
            "key": ["id"],
            "ordered_by": ["offset"],
            "deleted": "gone",
            "split": "partition",
            **fields.pop("upserts", {}),
        }
        fields.setdefault("query", "SELECT id, name, offset FROM upstream")
        return super().create(upstream={"upserts": upstream}, **fields)

    def land(self, *rows: dict[str, Any]) -> None:
        """Append rows in one commit, in this order."""
        self.landed.extend(rows)
        write_deltalake(self.path, pa.Table.from_pylist(list(rows), SCHEMA), mode="append")

    def truth(self) -> list[tuple[Any, ...]]:
        """Return the newest row of each key that is not deleted."""
        newest = {row["id"]: row for row in sorted(self.landed, key=lambda row: row["offset"])}
        return sorted((row["id"], row["name"], row["offset"]) for row in newest.values() if not row["gone"])

    def rows(self) -> list[tuple[Any, ...]]:
        """Return the view's rows."""
        return sorted(tuple(row) for row in self.view().collect())


def upsert(key: str, offset: int, name: str | None = "n", *, gone: bool = False, partition: int = 0) -> dict[str, Any]:
    return {"id": key, "name": None if gone else name, "gone": gone, "partition": partition, "offset": offset}


@pytest.fixture
def log(spark: SparkSession, lake: Path) -> Log:
    return Log(spark, lake)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("strategy", "seed"),
    [
        ("arrangement", 1),
        *(exhaustive(strategy, seed) for strategy in ("arrangement", "no_shuffle") for seed in range(2, 4)),
    ],
)
def test_random_histories(log: Log, strategy: str, seed: int) -> None:
    """I1: late rows, copies and deletes of keys that never were, from two partitions."""
    chance = random.Random(seed)
    offsets = dict.fromkeys((0, 1), 0)

    def change() -> dict[str, Any]:
        key = chance.choice(KEYS)
        partition = KEYS.index(key) % 2
        offsets[partition] += 1
        return upsert(key, offsets[partition], chance.choice("abc"), gone=chance.random() < 0.3, partition=partition)

    log.land(*(change() for _ in range(20)))
    log.create(strategy=strategy, rate_limit=5)
    for _ in range(5):
        batch = [change() for _ in range(chance.randrange(8))]
        batch += chance.sample(log.landed, 2)
        chance.shuffle(batch)
        late, now = batch[:2], batch[2:]
        log.land(*now)
        log.epoch()
        log.land(*late)
    log.finish()
    assert log.rows() == log.truth()
    log.assert_truth()


@pytest.mark.exhaustive
def test_a_key_that_comes_from_two_splits_is_refused(log: Log) -> None:
    """Offsets of two partitions cannot be compared, so neither row may win silently."""
    log.land(upsert("a", 7), upsert("b", 1))
    log.create()
    log.finish()
    log.land(upsert("a", 3, partition=1))
    with pytest.raises(BackfillError, match="rows of several splits") as refused:
        log.epoch()
    assert "partition" in str(refused.value)
    assert log.rows() == [("a", "n", 7), ("b", "n", 1)]


@pytest.mark.exhaustive
def test_a_key_that_came_from_two_splits_is_refused_when_history_is_read(log: Log) -> None:
    log.land(upsert("a", 7), upsert("a", 3, partition=1))
    log.create()
    with pytest.raises(BackfillError, match="rows of several splits"):
        log.finish()


@pytest.mark.exhaustive
def test_without_a_split_the_order_alone_counts(log: Log) -> None:
    log.land(upsert("a", 7), upsert("a", 3, "older", partition=1))
    log.create(upserts={"split": None})
    log.finish()
    assert log.rows() == [("a", "n", 7)]


def test_a_verification_finds_the_last_row_of_a_key_in_a_way_of_its_own(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I1: it does not share a mistake in the order of events."""
    log.land(upsert("a", 1, "old"), upsert("b", 2), upsert("c", 3), upsert("d", 4))
    log.land(upsert("a", 5, "new"), upsert("c", 6, gone=True), upsert("d", 7, None))
    monkeypatch.setattr(
        KeyedEvents,
        "in_order",
        property(lambda events: Window.partitionBy(*map(column, events.key)).orderBy(F.desc(events.order))),
    )
    log.create()
    log.finish()
    outcome = verifier.compare_now(log.backfill, log.engine)
    assert {(key.key, str(key.kind)) for key in outcome.keys} == {
        (("a",), "different"),
        (("c",), "unexpected"),
        (("d",), "different"),
    }
    assert outcome.expected_rows == 3


@pytest.mark.exhaustive
def test_two_different_rows_at_one_place_are_refused_and_copies_are_not(log: Log) -> None:
    log.land(upsert("a", 1), upsert("a", 1))
    log.create()
    log.finish()
    log.land(upsert("a", 1))
    log.finish()
    assert log.rows() == [("a", "n", 1)]
    log.land(upsert("a", 1, "another"))
    with pytest.raises(BackfillError, match="two different rows with the same offset"):
        log.epoch()


@pytest.mark.exhaustive
def test_two_different_rows_at_one_place_are_refused_when_history_is_read(log: Log) -> None:
    log.land(upsert("a", 1), upsert("a", 1, "another"))
    log.create()
    with pytest.raises(BackfillError, match="two different rows with the same offset"):
        log.finish()


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({**upsert("a", 2), "id": None}, "a row has no key"),
        ({**upsert("a", 2), "offset": None}, "a row has no order"),
        ({**upsert("a", 2), "gone": None}, "a row does not say whether it is deleted"),
    ],
)
def test_an_incomplete_row_is_refused(log: Log, row: dict[str, Any], message: str) -> None:
    log.land(upsert("b", 1))
    log.create()
    log.finish()
    log.land(row)
    with pytest.raises(BackfillError, match=message):
        log.epoch()
    assert log.rows() == [("b", "n", 1)]


@pytest.mark.exhaustive
def test_a_table_in_which_rows_are_changed_is_refused(log: Log) -> None:
    log.land(upsert("a", 1), upsert("b", 2))
    log.create()
    log.finish()
    DeltaTable(log.path).delete("id = 'a'")
    with pytest.raises(BackfillError, match="not append-only"):
        log.epoch()


def test_a_table_without_the_columns_is_refused_and_nothing_is_made(log: Log) -> None:
    with pytest.raises(UpstreamError, match="there is no column lsn"):
        log.create(upserts={"ordered_by": ["lsn"]})
    assert not log.on_disk(log.view_path).exists()


@pytest.mark.exhaustive
def test_a_column_that_says_what_a_row_is_may_not_go(log: Log) -> None:
    """It need not be among the columns that the query uses."""
    log.land(upsert("a", 1))
    log.create(query="SELECT id, name FROM upstream")
    log.finish()
    table = f"delta.{quote(log.path)}"
    log.spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    log.spark.sql(f"ALTER TABLE {table} RENAME COLUMN gone TO went")
    with pytest.raises((UpstreamError, UpstreamSchemaChangedError), match="gone"):
        log.epoch()
