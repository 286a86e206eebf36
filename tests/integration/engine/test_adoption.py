"""Existing tables that become views, in place and from copies of their files, on real Spark and Delta."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from airflow_backfill_provider import protocol
from airflow_backfill_provider.core.epoch.crash_points import CrashPoint, install
from airflow_backfill_provider.core.epoch.settings import JobSettings, SettingsChange
from airflow_backfill_provider.core.errors import AdoptedTableDiffersError, MaterializedViewError
from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.core.job.sql import quote
from airflow_backfill_provider.jobs import creation, mutations
from airflow_backfill_provider.jobs.verification import verifier
from airflow_backfill_provider.lake.tables.view_identity import FINISHED_PROPERTY, view_properties
from tests.dying import Died
from tests.integration.engine.lakehouse import TESTER, Lakehouse
from tests.variants import exhaustive

pytestmark = pytest.mark.spark

ROWS = "SELECT id, name, price * 2 AS twice FROM upstream WHERE price >= 0"
SLICE = "SELECT id % 3 AS third, sum(price) AS total FROM upstream GROUP BY id % 3 HAVING count(*) > 0"
FOLD = "SELECT name, sum(id) AS total, count(*) AS n FROM upstream GROUP BY name"


def over(lake: Lakehouse, query: str) -> str:
    """Return a query as a user runs it."""
    return query.replace("FROM upstream", f"FROM {lake.upstream}")


def nightly(lake: Lakehouse, how: str, query: str = ROWS) -> dict[str, Any]:
    """Make a table as a nightly job does; return the fields of a job that adopts it."""
    path = lake.view_path if how == "in place" else f"{lake.folder}/nightly"
    lake.sql(over(lake, query)).write.format("delta").mode("overwrite").save(path)
    return {"query": query, "backfill_from": {"path": path}, "as_of": lake.define().upstream.latest().number}


def change(lake: Lakehouse) -> None:
    """Change the upstream after the nightly job."""
    lake.sql("UPDATE {upstream} SET price = price + 1, name = upper(name) WHERE id % 3 = 0")
    lake.sql("DELETE FROM {upstream} WHERE id = 5")


@pytest.mark.parametrize("how", ["in place", exhaustive("copied")])
def test_an_existing_table_becomes_the_view_and_follows_the_upstream_from_as_of(numbers: Lakehouse, how: str) -> None:
    """I1, from the first epoch on: every vnode is Completed as of ``as_of``, and the changes after it are applied."""
    fields = nightly(numbers, how)
    change(numbers)
    settings = numbers.create(**fields)
    assert settings.adopted is not None
    assert settings.adopted.is_equal
    assert numbers.backfill.store.state().completed
    numbers.assert_equals_query(over(numbers, ROWS).replace(" WHERE", f" VERSION AS OF {fields['as_of']} WHERE"))
    properties = view_properties(numbers.view_path, numbers.storage_options)
    assert properties is not None
    assert properties[FINISHED_PROPERTY] == "false"
    commit = numbers.epoch()
    assert commit is not None
    assert (commit.completed, commit.snapshot_read_row_count) == (True, 0)
    protocol.finish_job(store=numbers.backfill.store, requested_by="tester")
    numbers.assert_equals_query(over(numbers, ROWS))
    numbers.sql("INSERT INTO {upstream} SELECT id, concat('n', id), id FROM range(50, 53)")
    numbers.epoch()
    numbers.assert_equals_query(over(numbers, ROWS))
    numbers.assert_truth()
    assert numbers.create(**fields).incarnation == settings.incarnation


def test_what_something_else_writes_while_a_table_is_adopted_is_found_and_repaired(numbers: Lakehouse) -> None:
    """The comparison does not cover it, and it is older than what an epoch checks."""
    fields = nightly(numbers, "in place")

    def write_too(point: CrashPoint) -> None:
        if point is CrashPoint.BEFORE_CREATION_COMMIT:
            numbers.sql("INSERT INTO {view} VALUES (77, 'foreign', 1)")

    install(write_too)
    try:
        with pytest.raises(MaterializedViewError, match=r"version 1 \(WRITE\) .* stop that writer"):
            numbers.create(**fields)
    finally:
        install(None)
    with pytest.raises(MaterializedViewError, match="stop that writer"):
        numbers.epoch()
    mutations.repair_job(store=numbers.backfill.store, requested_by="tester", vnodes=range(4))
    numbers.finish()
    numbers.assert_equals_query(over(numbers, ROWS))


@pytest.mark.exhaustive
@pytest.mark.parametrize("how", ["in place", "copied"])
@pytest.mark.parametrize(("query", "kept"), [(SLICE, ()), (FOLD, ("__fold_rows", "__fold_sum_0"))])
def test_groups_are_adopted_and_a_fold_gets_its_state_from_the_first_epoch(
    lakehouse: Lakehouse, how: str, query: str, kept: tuple[str, ...]
) -> None:
    lakehouse.make_upstream("id BIGINT, name STRING, price BIGINT")
    lakehouse.sql("INSERT INTO {upstream} SELECT id, concat('n', id % 3), id FROM range(9)")
    fields = nightly(lakehouse, how, query)
    lakehouse.sql("UPDATE {upstream} SET price = price + 1 WHERE id = 3")
    settings = lakehouse.create(**fields)
    assert set(kept) <= set(settings.state_columns)
    lakehouse.epoch()
    lakehouse.assert_truth()
    lakehouse.sql("DELETE FROM {upstream} WHERE id IN (0, 8)")
    lakehouse.sql("INSERT INTO {upstream} VALUES (30, 'n9', 5)")
    commit = lakehouse.epoch()
    assert commit is not None
    assert commit.work is not None
    assert commit.work.technique == ("fold" if kept else "slice")
    lakehouse.assert_truth()
    lakehouse.assert_equals_query(over(lakehouse, query))


@pytest.mark.exhaustive
@pytest.mark.parametrize("how", ["in place", "copied"])
def test_a_join_is_adopted_as_of_an_instant(lakehouse: Lakehouse, how: str) -> None:
    """The windows of all upstreams begin after what they had then."""
    cities = f"delta.{quote(f'{lakehouse.folder}/cities')}"
    lakehouse.make_upstream("id BIGINT, name STRING, city BIGINT")
    lakehouse.sql("INSERT INTO {upstream} SELECT id, concat('n', id), id % 3 FROM range(9)")
    feed = "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
    lakehouse.sql(f"CREATE TABLE {cities} (id BIGINT, town STRING) USING delta {feed}")
    lakehouse.sql(f"INSERT INTO {cities} SELECT id, concat('t', id) FROM range(3)")
    query = "SELECT o.id, o.name, c.town FROM orders o LEFT JOIN cities c ON o.city = c.id"
    plain = query.replace("orders o", f"{lakehouse.upstream} o").replace("cities c", f"{cities} c")
    path = lakehouse.view_path if how == "in place" else f"{lakehouse.folder}/nightly"
    lakehouse.sql(plain).write.format("delta").save(path)
    as_of = dt.datetime.now(dt.UTC)
    lakehouse.sql("UPDATE {upstream} SET name = 'x' WHERE id = 3")
    lakehouse.sql(f"UPDATE {cities} SET town = 'y' WHERE id = 1")
    lakehouse.job = BackfillJob(
        name="joined",
        upstreams={
            "orders": {"path": lakehouse.upstream_path, "key": ["id"]},
            "cities": {"path": f"{lakehouse.folder}/cities", "key": ["id"]},
        },
        materialized_view=lakehouse.view_path,
        query=query,
        vnode_count=4,
        backfill_from={"path": path},
        as_of=as_of,
    )
    settings = lakehouse.start_job(creation.create_job, lakehouse.backfill)
    assert settings.equal_sequence == 1
    for statement in (None, f"UPDATE {cities} SET town = 'z' WHERE id = 2"):
        if statement is not None:
            lakehouse.sql(statement)
        lakehouse.epoch()
        lakehouse.assert_truth()
        lakehouse.assert_equals_query(plain)


@pytest.mark.exhaustive
def test_a_table_that_differs_is_refused_and_repaired_only_if_the_job_asks_for_it(numbers: Lakehouse) -> None:
    """The nightly job read the upstream before two more changes; ``as_of`` says it read them."""
    fields = nightly(numbers, "in place")
    numbers.sql("UPDATE {upstream} SET price = price + 1 WHERE id = 3")
    numbers.sql("INSERT INTO {upstream} VALUES (20, 'x', 1)")
    fields["as_of"] += 2
    with pytest.raises(AdoptedTableDiffersError, match=r"\(1 missing, 1 different\).* twice differ") as refused:
        numbers.create(**fields)
    assert len(refused.value.keys) == 2
    assert not numbers.backfill.store.created()
    fields["backfill_from"]["repair"] = True
    numbers.create(**fields)
    version = numbers.view_events()
    numbers.epoch()
    assert numbers.view_events(after=len(version) - 1) == ["epoch", "finish"], "one commit changes rows (I7)"
    numbers.assert_equals_query(over(numbers, ROWS))
    verified = verifier.verify_job(numbers.backfill, engine=lambda: numbers.engine, requester=TESTER)
    assert verified.equal
    assert numbers.backfill.settings().change is SettingsChange.FOUND_EQUAL


@pytest.mark.exhaustive
def test_a_key_that_appears_may_be_there_as_long_as_not_all_vnodes_are_known_to_be_equal(numbers: Lakehouse) -> None:
    """The nightly job read a later version than ``as_of``, in a vnode that the sample leaves out."""
    numbers.sql("INSERT INTO {upstream} VALUES (20, 'x', 1)")
    fields = nightly(numbers, "in place")
    fields["as_of"] -= 1
    settings = _with_a_sample_that_finds_nothing(numbers, fields)
    assert settings.equal_sequence == 0
    assert any("the view was adopted" in warning for warning in numbers.backfill.status().warnings)
    numbers.epoch()
    numbers.assert_equals_query(over(numbers, ROWS))


def _with_a_sample_that_finds_nothing(lake: Lakehouse, fields: dict[str, Any]) -> JobSettings:
    """Adopt a table by other samples until one does not have the key that differs; which it has follows from names."""
    for vnodes in range(3, 40):
        fields["backfill_from"]["sample"] = 1
        try:
            return lake.create(**fields, vnode_count=vnodes)
        except AdoptedTableDiffersError:
            continue
    raise AssertionError("every sample has the key")


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("how", "point"),
    [
        ("in place", CrashPoint.BEFORE_CREATION_COMMIT),
        ("in place", CrashPoint.AFTER_CREATION_COMMIT),
        ("copied", CrashPoint.BEFORE_CREATION_COMMIT),
        ("copied", CrashPoint.AFTER_CREATION_COMMIT),
        ("copied", CrashPoint.BEFORE_FILES_COMMIT),
    ],
)
def test_an_adoption_that_died_is_completed_by_the_next_attempt(
    numbers: Lakehouse, how: str, point: CrashPoint
) -> None:
    """I2: rows are there once, whether the job is created again or an epoch is run."""
    fields = nightly(numbers, how)
    change(numbers)

    def die(reached: CrashPoint) -> None:
        if reached is point:
            raise Died

    install(die)
    try:
        with pytest.raises(Died):
            numbers.create(**fields)
    finally:
        install(None)
    numbers.create(**fields)
    numbers.epoch()
    numbers.assert_equals_query(over(numbers, ROWS))
    numbers.assert_truth()


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("made", "message"),
    [
        ("CREATE TABLE {view} SHALLOW CLONE {other}", "shallow clone"),
        ("CREATE TABLE {view} USING delta AS SELECT id, name FROM {other}", "lacks twice"),
        (
            "CREATE TABLE {view} USING delta AS SELECT *, 1 AS more FROM {other}",
            "has more, which the query",
        ),
        (
            "CREATE TABLE {view} USING delta AS SELECT id, name, int(twice) AS twice FROM {other}",
            "twice is int and",
        ),
        ("CREATE TABLE {view} USING delta AS SELECT * FROM {other} UNION ALL SELECT * FROM {other}", "the same id"),
        (
            "CREATE TABLE {view} USING delta {mapped} AS SELECT * FROM {other}",
            "maps its columns",
        ),
    ],
)
def test_a_table_that_cannot_be_the_view_is_refused_before_anything_is_written(
    numbers: Lakehouse, made: str, message: str
) -> None:
    """I6."""
    other = f"delta.{quote(f'{numbers.folder}/nightly')}"
    mapped = "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"
    fields = nightly(numbers, "copied")
    numbers.sql(made.replace("{other}", other).replace("{mapped}", mapped))
    fields["backfill_from"] = {"path": numbers.view_path, "repair": True}
    with pytest.raises(MaterializedViewError, match=message):
        numbers.create(**fields)
    assert not numbers.backfill.store.created()


@pytest.mark.exhaustive
@pytest.mark.parametrize("how", ["in place", "copied"])
def test_the_key_must_be_in_the_output(numbers: Lakehouse, how: str) -> None:
    with pytest.raises(MaterializedViewError, match="does not select all columns"):
        numbers.create(**nightly(numbers, how, "SELECT name FROM upstream"))


@pytest.mark.exhaustive
@pytest.mark.parametrize("option", ["PARTITIONED BY (name)", "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"])
@pytest.mark.parametrize("how", ["in place", "copied"])
def test_partitions_and_hidden_rows_are_adopted(numbers: Lakehouse, how: str, option: str) -> None:
    """Files without these rows or columns are not copied byte by byte."""
    path = numbers.view_path if how == "in place" else f"{numbers.folder}/nightly"
    table = f"delta.{quote(path)}"
    numbers.sql(f"CREATE TABLE {table} USING delta {option} AS {over(numbers, ROWS)}")
    numbers.sql(f"INSERT INTO {table} VALUES (99, 'n1', 1), (98, 'n1', 1)")
    numbers.sql(f"DELETE FROM {table} WHERE id > 90")
    as_of = numbers.define().upstream.latest().number
    change(numbers)
    numbers.create(query=ROWS, backfill_from={"path": path}, as_of=as_of)
    numbers.epoch()
    numbers.sql("INSERT INTO {upstream} SELECT id, concat('n', id), id FROM range(50, 53)")
    numbers.epoch()
    numbers.assert_equals_query(over(numbers, ROWS))
    numbers.assert_truth()


@pytest.mark.exhaustive
def test_a_rebuild_computes_the_view(numbers: Lakehouse) -> None:
    fields = nightly(numbers, "copied")
    numbers.create(**fields)
    numbers.epoch()
    settings = numbers.rebuild(**fields)
    assert settings.first_rows is None
    numbers.finish()
    numbers.assert_equals_query(over(numbers, ROWS))
