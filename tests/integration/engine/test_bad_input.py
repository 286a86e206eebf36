"""Jobs that cannot work are refused before anything is written, with an error that says what to do (I6)."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core import errors
from tests.integration.engine.lakehouse import Lakehouse
from tests.integration.engine.refusals import assert_nothing_written
from tests.variants import exhaustive

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(
    ("fields", "error", "words"),
    [
        exhaustive({"key": ["nope"]}, errors.InvalidJobError, ["upstream.key", "'nope'", "id, name, price"]),
        ({"key": ["price"]}, errors.InvalidJobError, ["price", "double", "cannot be a key"]),
        ({"query": "SELECT id, nope FROM upstream"}, errors.InvalidJobError, ["query", "nope"]),
        exhaustive({"query": "SELECT id, nope(id) AS x FROM upstream"}, errors.InvalidJobError, ["query", "nope"]),
        ({"query": "SELECT id, id + 1 FROM upstream"}, errors.InvalidJobError, ["(id + 1)", "alias"]),
        exhaustive({"query": "SELECT id, name AS id FROM upstream"}, errors.InvalidJobError, ["id", "more than once"]),
        ({"query": "SELECT id, NULL AS nothing FROM upstream"}, errors.InvalidJobError, ["nothing", "cast"]),
        exhaustive({"query": "SELECT id, user FROM upstream"}, errors.InvalidJobError, ["user", "not deterministic"]),
        exhaustive({"query": "SELECT id FROM upstream WHERE name"}, errors.InvalidJobError, ["query"]),
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


def test_view_path_that_holds_another_table(numbers: Lakehouse) -> None:
    numbers.spark.range(3).write.format("delta").save(numbers.view_path)
    with pytest.raises(errors.MaterializedViewError, match="holds another table"):
        numbers.create()
    assert numbers.view().count() == 3
    assert not numbers.on_disk(f"{numbers.folder}/_backfill").exists()


def test_view_path_that_holds_files(numbers: Lakehouse) -> None:
    numbers.on_disk(numbers.view_path).mkdir()
    (numbers.on_disk(numbers.view_path) / "thesis.txt").write_text("precious")
    with pytest.raises(errors.MaterializedViewError, match="no (readable )?Delta table"):
        numbers.create()


def test_view_of_another_job(numbers: Lakehouse) -> None:
    numbers.create()
    with pytest.raises(errors.MaterializedViewError, match="view of job orders_view"):
        numbers.create(name="second")


@pytest.mark.exhaustive
def test_a_row_that_the_query_fails_on_is_reported_without_its_value(numbers: Lakehouse) -> None:
    numbers.create(rate_limit=5, query="SELECT id, CAST(substring(name, 2) AS INT) AS number FROM upstream")
    numbers.sql("INSERT INTO {upstream} VALUES (9, 'a card number', 9)")
    with pytest.raises(errors.QueryFailedError, match=r"CAST_INVALID_INPUT.*try_cast") as caught:
        numbers.finish()
    assert "card" not in str(caught.value)


@pytest.mark.exhaustive
def test_hostile_names_and_values_are_data(lakehouse: Lakehouse) -> None:
    """Column names and values with quotes are treated as data everywhere."""
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


@pytest.mark.exhaustive
def test_a_property_that_delta_refuses_is_corrected_by_creating_again(numbers: Lakehouse) -> None:
    """Only Delta knows which values are valid, and it checks them when the view is created."""
    with pytest.raises(errors.MaterializedViewError, match="checkpointInterval needs to be a positive integer"):
        numbers.create(table_properties={"delta.checkpointInterval": "often"})
    numbers.create(table_properties={"delta.checkpointInterval": "20"})
    numbers.finish()
    numbers.assert_equals_query("SELECT * FROM {upstream}")


def test_a_job_is_created_over_a_log_without_a_commit(numbers: Lakehouse) -> None:
    """I2: a process that dies while it creates a table leaves such a log."""
    log = numbers.on_disk(numbers.view_path) / "_delta_log"
    log.mkdir(parents=True)
    (log / ".00000000000000000000.json.5d3c.tmp").write_text("{", encoding="utf-8")
    numbers.create()
    numbers.finish()
    numbers.assert_equals_query("SELECT * FROM {upstream}")
