"""What cannot be done right is refused before anything is written, with an error that says what to do (I6)."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from airflow_backfill_provider.core import crash_points, errors
from airflow_backfill_provider.core.crash_points import CrashPoint
from airflow_backfill_provider.engine import job_rows
from airflow_backfill_provider.protocol import mutations
from tests.builders import write_table
from tests.integration.engine.lakehouse import Lakehouse
from tests.variants import exhaustive, mostly_exhaustive

pytestmark = pytest.mark.spark


@pytest.fixture
def numbers(lakehouse: Lakehouse) -> Lakehouse:
    """An upstream of nine rows in one version."""
    lakehouse.make_upstream("id BIGINT, name STRING, price DOUBLE")
    lakehouse.sql("INSERT INTO {upstream} SELECT id, concat('n', id), id FROM range(9)")
    return lakehouse


def assert_nothing_written(lakehouse: Lakehouse) -> None:
    assert not Path(lakehouse.view_path).exists()
    assert not (lakehouse.folder / "_backfill").exists()


@pytest.mark.parametrize(
    ("fields", "error", "words"),
    [
        ({"key": ["nope"]}, errors.InvalidJobError, ["upstream.key", "'nope'", "id, name, price"]),
        ({"key": ["price"]}, errors.InvalidJobError, ["price", "double", "cannot be a key"]),
        ({"query": "SELECT id, nope FROM upstream"}, errors.InvalidJobError, ["query", "nope"]),
        ({"query": "SELECT id, nope(id) AS x FROM upstream"}, errors.InvalidJobError, ["query", "nope"]),
        ({"query": "SELECT id, id + 1 FROM upstream"}, errors.InvalidJobError, ["(id + 1)", "alias"]),
        ({"query": "SELECT id, name AS id FROM upstream"}, errors.InvalidJobError, ["id", "more than once"]),
        ({"query": "SELECT id, NULL AS nothing FROM upstream"}, errors.InvalidJobError, ["nothing", "cast"]),
        ({"query": "SELECT id, user FROM upstream"}, errors.InvalidJobError, ["user", "same value"]),
        ({"query": "SELECT id FROM upstream WHERE name"}, errors.InvalidJobError, ["query"]),
        ({"restrict_to": {"keys": {"up_to": ["soon"]}}}, errors.InvalidJobError, ["restrict_to.keys.up_to", "long"]),
    ],
)
def test_wrong_definitions_are_refused(
    numbers: Lakehouse, fields: dict[str, object], error: type[Exception], words: list[str]
) -> None:
    with pytest.raises(error) as caught:
        numbers.create(**fields)
    for word in words:
        assert word in str(caught.value)
    assert "\n" not in str(caught.value)
    assert_nothing_written(numbers)


def test_missing_upstream(lakehouse: Lakehouse) -> None:
    with pytest.raises(errors.UpstreamNotFoundError, match="no Delta table at"):
        lakehouse.create()
    assert_nothing_written(lakehouse)


def test_upstream_without_change_data_feed(lakehouse: Lakehouse) -> None:
    lakehouse.make_upstream("id BIGINT", properties={"delta.appendOnly": "false"})
    with pytest.raises(
        errors.ChangeDataFeedDisabledError, match=r"ALTER TABLE delta\.`.*` SET TBLPROPERTIES"
    ) as caught:
        lakehouse.create()
    assert_nothing_written(lakehouse)
    lakehouse.spark.sql(str(caught.value).split("with: ")[1])
    lakehouse.create()


def test_duplicate_keys_are_refused_at_creation(numbers: Lakehouse) -> None:
    numbers.sql("INSERT INTO {upstream} VALUES (4, 'again', 0)")
    with pytest.raises(errors.DuplicateKeyError, match=r"several rows with the same key \(id\)"):
        numbers.create()
    assert_nothing_written(numbers)


def test_duplicate_keys_of_a_large_upstream_are_refused_by_the_epoch_that_reads_them(
    numbers: Lakehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_rows, "HASHES_IN_MEMORY", 5)
    numbers.sql("INSERT INTO {upstream} VALUES (7, 'again', 0)")
    numbers.create(strategy="no_shuffle", rate_limit=6)
    numbers.epoch()
    numbers.sql("UPDATE {upstream} SET name = 'changed' WHERE id = 0")
    with pytest.raises(errors.DuplicateKeyError, match=r"several rows with the same key \(id\)"):
        numbers.epoch()
    assert numbers.view().count() == 6
    assert not numbers.view().filter("name = 'changed'").count(), "nothing of the epoch is written"


def test_duplicate_keys_of_a_large_upstream_never_get_into_an_arrangement(
    numbers: Lakehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_rows, "HASHES_IN_MEMORY", 5)
    numbers.sql("INSERT INTO {upstream} VALUES (7, 'again', 0)")
    with pytest.raises(errors.DuplicateKeyError, match=r"several rows with the same key \(id\)"):
        numbers.create(strategy="arrangement")
    assert_nothing_written(numbers)


@pytest.mark.exhaustive
def test_keys_that_differ_only_in_which_column_is_null_are_no_duplicates(lakehouse: Lakehouse) -> None:
    """Spark's hash of several columns passes over nulls, so these have the same one."""
    lakehouse.make_upstream("a BIGINT, b BIGINT")
    lakehouse.sql("INSERT INTO {upstream} VALUES (NULL, 1), (1, NULL), (NULL, NULL), (1, 1)")
    lakehouse.create(key=["a", "b"], rate_limit=3)
    assert sum(commit.snapshot_read_row_count for commit in lakehouse.finish()) == 4
    lakehouse.assert_truth()


@pytest.mark.exhaustive
def test_duplicate_key_inserted_later_is_refused_before_the_view_is_wrong(numbers: Lakehouse) -> None:
    numbers.create(rate_limit=5)
    numbers.epoch()
    numbers.sql("INSERT INTO {upstream} VALUES (2, 'again', 0)")
    barrier = numbers.inject()
    assert barrier is not None
    version = numbers.backfill.store.commits()[-1].view_version
    with pytest.raises(errors.DuplicateKeyError, match="a key that it already has"):
        numbers.run(barrier)
    assert numbers.view().count() == 5
    assert (
        numbers.spark.sql(f"DESCRIBE HISTORY delta.`{numbers.view_path.replace('`', '``')}`").first()["version"]
        == version
    )


DUPLICATES = {
    "in one commit": ["INSERT INTO {upstream} VALUES (70, 'a', 0), (70, 'b', 0)"],
    "in two commits": ["INSERT INTO {upstream} VALUES (70, 'a', 0)", "INSERT INTO {upstream} VALUES (70, 'b', 0)"],
    "in place of a deleted one": [
        "DELETE FROM {upstream} WHERE id = 3",
        "INSERT INTO {upstream} VALUES (3, 'a', 0)",
        "INSERT INTO {upstream} VALUES (3, 'b', 0)",
    ],
    "before the old one is deleted": [
        "INSERT INTO {upstream} VALUES (3, 'new', 0)",
        "DELETE FROM {upstream} WHERE id = 3 AND name <> 'new'",
    ],
    "for a moment": [
        "INSERT INTO {upstream} VALUES (70, 'a', 0)",
        "INSERT INTO {upstream} VALUES (70, 'b', 0)",
        "DELETE FROM {upstream} WHERE id = 70 AND name = 'a'",
        "DELETE FROM {upstream} WHERE id = 70",
    ],
}


QUICK = {"in two commits"}


@pytest.mark.parametrize("case", mostly_exhaustive(DUPLICATES, QUICK))
def test_duplicate_key_in_one_window_is_refused(numbers: Lakehouse, case: str) -> None:
    numbers.create()
    numbers.finish()
    for statement in DUPLICATES[case]:
        numbers.sql(statement)
    with pytest.raises(errors.DuplicateKeyError):
        numbers.epoch()
    assert {row["id"] for row in numbers.view().collect()} == set(range(9))


@pytest.mark.parametrize(
    ("visibility", "row"),
    [
        ("every_epoch", "(2, 'left out', -1)"),
        ("on_finish", "(2, 'again', 0)"),
        exhaustive("on_finish", "(2, 'left out', -1)"),
    ],
)
def test_duplicate_key_of_a_row_that_was_read_is_refused(numbers: Lakehouse, visibility: str, row: str) -> None:
    """Also where the query leaves the second row out: the view would lose the first one."""
    numbers.create(
        rate_limit=5, strategy="no_shuffle", visibility=visibility, query="SELECT * FROM upstream WHERE price >= 0"
    )
    numbers.epoch()
    numbers.sql(f"INSERT INTO {{upstream}} VALUES {row}")
    with pytest.raises(errors.DuplicateKeyError, match="a key that it already has"):
        numbers.finish()


def last_vnode(numbers: Lakehouse, first: int, last: int) -> int:
    """Return one of some numbers whose vnode is read last."""
    rows = numbers.sql(f"SELECT id FROM range({first}, {last}) WHERE pmod(hash(id), 4) = 3")
    return int(rows.head()["id"])


@pytest.mark.parametrize(
    ("new", "epochs_between"),
    [
        (False, 0),
        exhaustive(True, 1),
        exhaustive(True, 0),
    ],
)
def test_duplicate_key_of_a_row_that_only_the_arrangement_has_is_refused(
    numbers: Lakehouse, new: bool, epochs_between: int
) -> None:
    """In its base, or in its changes: of one epoch, or of several."""
    numbers.create(rate_limit=2, strategy="arrangement")
    numbers.epoch()
    if new:
        number = last_vnode(numbers, 100, 200)
        numbers.sql(f"INSERT INTO {{upstream}} VALUES ({number}, 'once', 0)")
    else:
        number = last_vnode(numbers, 0, 9)
    for _ in range(epochs_between):
        numbers.epoch()
    numbers.sql(f"INSERT INTO {{upstream}} VALUES ({number}, 'again', 0)")
    with pytest.raises(errors.DuplicateKeyError):
        numbers.finish()
    assert numbers.view().filter(f"id = {number}").count() == 0


def test_view_path_that_holds_another_table(numbers: Lakehouse) -> None:
    numbers.spark.range(3).write.format("delta").save(numbers.view_path)
    with pytest.raises(errors.MaterializedViewError, match="holds another table"):
        numbers.create()
    assert numbers.view().count() == 3
    assert not (numbers.folder / "_backfill").exists()


def test_view_path_that_holds_files(numbers: Lakehouse) -> None:
    Path(numbers.view_path).mkdir()
    (Path(numbers.view_path) / "thesis.txt").write_text("precious")
    with pytest.raises(errors.MaterializedViewError, match="no (readable )?Delta table"):
        numbers.create()


def test_view_of_another_job(numbers: Lakehouse) -> None:
    numbers.create()
    with pytest.raises(errors.MaterializedViewError, match="view of job orders_view"):
        numbers.create(name="second")


def test_view_written_by_a_stranger(numbers: Lakehouse) -> None:
    """It is seen before the epoch writes anything."""
    numbers.create(rate_limit=5)
    numbers.epoch()
    path = numbers.view_path.replace("`", "``")
    numbers.spark.sql(f"DELETE FROM delta.`{path}` WHERE id = 1")
    with pytest.raises(errors.MaterializedViewError, match="only the job may write"):
        numbers.epoch()
    assert {row["id"] for row in numbers.view().collect()} == {0, 2, 3, 4}


def test_a_table_that_replaced_the_upstream_under_a_pinned_epoch_is_not_read(numbers: Lakehouse) -> None:
    """It has the same columns, and the version that was pinned."""
    numbers.create(rate_limit=5)
    numbers.epoch()
    numbers.sql("INSERT INTO {upstream} VALUES (9, 'n9', 9)")
    barrier = numbers.inject()
    assert barrier is not None
    shutil.rmtree(numbers.upstream_path)
    numbers.make_upstream("id BIGINT, name STRING, price DOUBLE")
    for number in range(5, 10):
        numbers.sql(f"INSERT INTO {{upstream}} VALUES ({number}, 'another', 0)")
    with pytest.raises(errors.UpstreamReplacedError, match="rebuild the job"):
        numbers.run(barrier)
    assert {row["id"] for row in numbers.view().collect()} == set(range(5))


def test_a_table_that_replaced_the_upstream_while_an_epoch_read_it_is_not_committed(numbers: Lakehouse) -> None:
    """What was read of it lies in the view, which no epoch goes on with."""
    numbers.create(rate_limit=5)
    barrier = numbers.inject()
    assert barrier is not None

    def replace(point: CrashPoint) -> None:
        if point is CrashPoint.AFTER_SNAPSHOT_COMMIT:
            shutil.rmtree(numbers.upstream_path)
            write_table(numbers.upstream_path, {"id": pa.array([1])})

    crash_points.install(replace)
    with pytest.raises(errors.UpstreamReplacedError, match="rebuild the job"):
        numbers.run(barrier)
    assert numbers.backfill.store.commits() == []


def test_a_row_that_the_query_fails_on_is_said_without_its_value(numbers: Lakehouse) -> None:
    numbers.create(rate_limit=5, query="SELECT id, CAST(substring(name, 2) AS INT) AS number FROM upstream")
    numbers.sql("INSERT INTO {upstream} VALUES (9, 'a card number', 9)")
    with pytest.raises(errors.QueryFailedError, match=r"CAST_INVALID_INPUT.*try_cast") as caught:
        numbers.finish()
    assert "card" not in str(caught.value)


def test_view_restored_by_a_stranger(numbers: Lakehouse) -> None:
    numbers.create(rate_limit=5)
    numbers.epoch()
    path = numbers.view_path.replace("`", "``")
    numbers.spark.sql(f"RESTORE TABLE delta.`{path}` TO VERSION AS OF 0")
    with pytest.raises(errors.MaterializedViewError, match=r"\(RESTORE\)"):
        numbers.epoch()


@pytest.mark.parametrize(
    ("moment", "committed"),
    [
        (CrashPoint.BEFORE_SNAPSHOT_COMMIT, 1),
        exhaustive(CrashPoint.BEFORE_STATE_COMMIT, 2),
    ],
)
def test_view_written_by_a_stranger_while_an_epoch_runs(numbers: Lakehouse, moment: CrashPoint, committed: int) -> None:
    """I6: between its own writes this epoch sees it, and behind its last look at the view the next one."""
    numbers.create(rate_limit=3)
    numbers.epoch()
    path = numbers.view_path.replace("`", "``")

    def stranger(point: CrashPoint) -> None:
        if point == moment:
            crash_points.install(None)
            numbers.spark.sql(f"UPDATE delta.`{path}` SET name = 'stranger' WHERE id = 1")

    crash_points.install(stranger)
    with pytest.raises(errors.MaterializedViewError, match=r"\(UPDATE\) was not written by job orders_view"):
        numbers.finish()
    assert len(numbers.backfill.store.commits()) == committed
    # The key lies in one of the vnodes, and is written once.
    mutations.repair_job(store=numbers.backfill.store, requested_by="tester", keys=[1], vnodes=["0-3"])
    numbers.finish()
    numbers.assert_equals_query("SELECT * FROM {upstream}")


def test_maintenance_of_the_view_is_welcome(numbers: Lakehouse) -> None:
    numbers.create(rate_limit=5)
    numbers.epoch()
    path = numbers.view_path.replace("`", "``")
    numbers.spark.sql(f"OPTIMIZE delta.`{path}`")
    numbers.spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('team' = 'me')")
    numbers.finish()
    numbers.assert_equals_query("SELECT * FROM {upstream}")


def test_upstream_replaced_by_another_table(numbers: Lakehouse) -> None:
    numbers.create(rate_limit=5)
    numbers.epoch()
    shutil.rmtree(numbers.upstream_path)
    numbers.make_upstream("id BIGINT, name STRING, price DOUBLE")
    with pytest.raises(errors.UpstreamReplacedError, match="rebuild the job"):
        numbers.epoch()


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
    for file in (Path(numbers.upstream_path) / "_change_data").glob("*.parquet"):
        file.unlink()
    with pytest.raises(errors.ChangeFeedGapError, match="gone"):
        numbers.epoch()
    assert numbers.view().count() == 5


def test_change_feed_off_meanwhile(numbers: Lakehouse) -> None:
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


@pytest.mark.exhaustive
def test_hostile_names_stay_in_their_place(lakehouse: Lakehouse) -> None:
    """Column names and values with quotes are data, wherever they go."""
    lakehouse.make_upstream("id BIGINT, `o'br\"ien-x` STRING")
    lakehouse.sql("INSERT INTO {upstream} VALUES (1, '`'), (2, \"'; DROP TABLE x\"), (3, NULL)")
    lakehouse.create(
        key=["o'br\"ien-x"],
        query="SELECT id, `o'br\"ien-x` AS `o'br\"ien-x` FROM upstream",
        rate_limit=1,
        table_properties={"comment.it's": "a \\ and a ' too"},
    )
    lakehouse.epoch()
    lakehouse.sql("UPDATE {upstream} SET id = id + 10")
    lakehouse.finish()
    lakehouse.assert_equals_query("SELECT * FROM {upstream}")


def test_a_property_that_delta_refuses_is_mended_by_creating_again(numbers: Lakehouse) -> None:
    """Nobody but Delta knows which values are right, and it is asked when the view is made."""
    with pytest.raises(errors.MaterializedViewError, match="checkpointInterval needs to be a positive integer"):
        numbers.create(table_properties={"delta.checkpointInterval": "often"})
    numbers.create(table_properties={"delta.checkpointInterval": "20"})
    numbers.finish()
    numbers.assert_equals_query("SELECT * FROM {upstream}")


def test_a_log_without_a_commit_is_no_obstacle(numbers: Lakehouse) -> None:
    """I2: whoever makes a table and dies leaves that behind."""
    log = Path(numbers.view_path, "_delta_log")
    log.mkdir(parents=True)
    (log / ".00000000000000000000.json.5d3c.tmp").write_text("{", encoding="utf-8")
    numbers.create()
    numbers.finish()
    numbers.assert_equals_query("SELECT * FROM {upstream}")
