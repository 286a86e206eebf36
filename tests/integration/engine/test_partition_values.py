"""Values of partition columns that writers read in different ways: the empty text, and a timestamp without a zone."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from airflow_backfill_provider.core.errors import ChangeFeedGapError
from tests.integration.engine.lakehouse import CHANGE_DATA_FEED, Lakehouse
from tests.variants import exhaustive

pytestmark = pytest.mark.spark


def write(lakehouse: Lakehouse, *rows: tuple[int, str | None]) -> None:
    """Append rows by deltalake, to a table that is partitioned by the text."""
    ids, texts = zip(*rows, strict=True)
    columns = {"id": pa.array(ids, pa.int64()), "k": pa.array(texts, pa.string())}
    write_deltalake(
        lakehouse.upstream_path,
        pa.table(columns),
        mode="append",
        partition_by=["k"],
        configuration=CHANGE_DATA_FEED,
    )


def found(lakehouse: Lakehouse) -> list[tuple[object, ...]]:
    return sorted(map(tuple, lakehouse.view().select("id", "k").collect()))


@pytest.mark.parametrize(
    ("key", "strategy"),
    [
        pytest.param(["k", "id"], "no_shuffle", id="in the key"),
        exhaustive(["id"], "no_shuffle", name="as a value"),
        exhaustive(["k", "id"], "arrangement", name="arranged"),
        exhaustive(["k", "id"], "snapshot", name="snapshot"),
    ],
)
def test_an_empty_partition_value_is_null_in_every_epoch(lakehouse: Lakehouse, key: list[str], strategy: str) -> None:
    """I1, I6: deltalake writes it as an empty text, Spark reads a text, and after OPTIMIZE null, without a change."""
    write(lakehouse, (1, ""), (2, "a"), (3, None), (4, ""))
    lakehouse.create(key=key, strategy=strategy, rate_limit=2)
    lakehouse.epoch()
    write(lakehouse, (5, ""))
    lakehouse.finish()
    assert found(lakehouse) == [(1, None), (2, "a"), (3, None), (4, None), (5, None)]
    lakehouse.sql("OPTIMIZE {upstream}")
    lakehouse.sql("DELETE FROM {upstream} WHERE id IN (1, 5)")
    write(lakehouse, (6, ""))
    DeltaTable(lakehouse.upstream_path).delete("id = 6")
    lakehouse.finish()
    assert found(lakehouse) == [(2, "a"), (3, None), (4, None)]
    lakehouse.assert_truth()


@pytest.mark.exhaustive
def test_a_compaction_that_reads_timestamps_in_another_zone_is_refused(lakehouse: Lakehouse) -> None:
    """I6: no change tells that the rows have another key, so the view would keep the old ones."""
    lakehouse.sql(
        "CREATE TABLE {upstream} (id BIGINT, at TIMESTAMP) USING delta PARTITIONED BY (at) TBLPROPERTIES "
        "('delta.enableChangeDataFeed' = 'true')"
    )
    for number in range(2):
        lakehouse.sql(f"INSERT INTO {{upstream}} VALUES ({number}, TIMESTAMP'2026-01-01 00:00:00Z')")
        without_zone(lakehouse, number + 1)
    lakehouse.create(key=["at", "id"])
    lakehouse.finish()
    session = lakehouse.spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "America/Los_Angeles")
    session.sql(f"OPTIMIZE {lakehouse.upstream}")
    epochs = lakehouse.backfill.store.last_epoch()
    for _ in range(2):
        with pytest.raises(ChangeFeedGapError, match="version 3 .* other values of the partition columns at"):
            lakehouse.inject()
    assert lakehouse.backfill.store.last_epoch() == epochs
    lakehouse.rebuild(key=["at", "id"])
    lakehouse.finish()
    lakehouse.assert_equals_query("SELECT * FROM {upstream}")


MERGE = "MERGE INTO {upstream} AS t USING (SELECT 0L AS id) AS s ON t.id = s.id WHEN MATCHED THEN UPDATE SET amount = 7"


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "statement",
    [
        pytest.param("UPDATE {upstream} SET amount = 7 WHERE id = 0", id="update"),
        exhaustive("DELETE FROM {upstream} WHERE id = 0", name="delete"),
        exhaustive(MERGE, name="merge"),
    ],
)
def test_rows_that_a_statement_in_another_zone_only_copies_are_missed_by_no_epoch(
    lakehouse: Lakehouse, statement: str
) -> None:
    """I6: the change data feed has a change of one row, and Delta gives another instant to all rows of its file."""
    lakehouse.sql(
        "CREATE TABLE {upstream} (id BIGINT, amount BIGINT, at TIMESTAMP) USING delta PARTITIONED BY (at) "
        "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true', 'delta.enableDeletionVectors' = 'false')"
    )
    for first in (0, 4):
        lakehouse.sql(
            "INSERT INTO {upstream} SELECT /*+ COALESCE(1) */ id, id, TIMESTAMP'2026-01-01 00:00:00Z' "
            f"FROM range({first}, {first + 4})"
        )
        without_zone(lakehouse, first // 4 + 1)
    lakehouse.create()
    lakehouse.finish()
    lakehouse.sql("UPDATE {upstream} SET amount = 5 WHERE id = 4")
    lakehouse.finish()
    lakehouse.assert_truth()
    session = lakehouse.spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "America/Los_Angeles")
    session.sql(statement.replace("{upstream}", lakehouse.upstream))
    epochs = lakehouse.backfill.store.last_epoch()
    with pytest.raises(ChangeFeedGapError, match="version 4 .* other values of the partition columns at"):
        lakehouse.inject()
    assert lakehouse.backfill.store.last_epoch() == epochs


@pytest.mark.parametrize(
    "strategy",
    [
        exhaustive("no_shuffle", name="no_shuffle"),
        exhaustive("snapshot", name="snapshot"),
    ],
)
def test_a_compaction_that_pads_a_partition_column_changes_nothing(lakehouse: Lakehouse, strategy: str) -> None:
    """I1, I4: Delta's scan pads CHAR, also an empty text, and OPTIMIZE writes the blanks that INSERT left out."""
    lakehouse.sql(
        "CREATE TABLE {upstream} (id BIGINT, k CHAR(3)) USING delta PARTITIONED BY (k) TBLPROPERTIES "
        "('delta.enableChangeDataFeed' = 'true')"
    )
    for number in (0, 10):
        lakehouse.sql(f"INSERT INTO {{upstream}} VALUES ({number}, 'a'), ({number + 1}, NULL)")
        write(lakehouse, (number + 2, ""), (number + 3, "a"))
    lakehouse.create(strategy=strategy, rate_limit=5)
    lakehouse.epoch()
    lakehouse.sql("OPTIMIZE {upstream}")
    lakehouse.finish()
    lakehouse.assert_equals_query("SELECT * FROM {upstream}")
    assert {row["k"] for row in lakehouse.view().collect()} == {"a  ", "   ", None}
    lakehouse.assert_truth()


def without_zone(lakehouse: Lakehouse, version: int) -> None:
    """Write a commit's partition values as older writers do."""
    commit = Path(lakehouse.upstream_path, "_delta_log", f"{version:020d}.json")
    actions = [json.loads(line) for line in commit.read_text(encoding="utf-8").splitlines()]
    for action in actions:
        if "add" in action:
            action["add"]["partitionValues"] = {"at": "2026-01-01 00:00:00"}
    commit.write_text("".join(json.dumps(action) + "\n" for action in actions), encoding="utf-8")
    commit.with_name(f".{commit.name}.crc").unlink(missing_ok=True)
    commit.with_suffix(".crc").unlink(missing_ok=True)
