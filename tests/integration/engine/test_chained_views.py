"""
A chain on real Spark: groups over the view of another job, with no statement by hand in between.

Rows of PostgreSQL and of Kafka reach aggregates in this way: a view of rows first, then a view of groups on it.
"""

from __future__ import annotations

import copy

import pytest

from airflow_backfill_provider.core.errors import InvalidJobError, UpstreamNotFinishedError, UpstreamReplacedError
from airflow_backfill_provider.engine.spark_engine import SparkEngine
from airflow_backfill_provider.lake.log.delta_log import DeltaLog, stamp_of
from airflow_backfill_provider.lake.tables.view_identity import FINISHED_PROPERTY, view_properties
from tests.integration.engine.lakehouse import CHANGE_DATA_FEED, Lakehouse
from tests.variants import exhaustive

pytestmark = pytest.mark.spark

TOTALS = "SELECT country, count(*) AS n, sum(amount) AS total FROM upstream GROUP BY country"
FEED = "delta.enableChangeDataFeed"


@pytest.fixture
def paid(lakehouse: Lakehouse) -> Lakehouse:
    """A job that has read some of its rows."""
    lakehouse.make_upstream("id BIGINT, country STRING, amount BIGINT")
    lakehouse.sql("INSERT INTO {upstream} SELECT id, concat('c', id % 4), id % 7 FROM range(60)")
    lakehouse.create(name="paid", query="SELECT id, country, amount FROM upstream WHERE amount > 0", rate_limit=30)
    lakehouse.epoch()
    return lakehouse


@pytest.fixture
def totals(paid: Lakehouse) -> Lakehouse:
    """A job over the first one's view that is not created."""
    second = copy.copy(paid)
    second.engine = SparkEngine(paid.spark, paid.storage_options)
    second.upstream_path, second.view_path, second._beginning = paid.view_path, f"{paid.folder}/totals", None
    second.define(name="totals", query=TOTALS, strategy="snapshot")
    return second


def create(totals: Lakehouse) -> None:
    totals.create(name="totals", query=TOTALS, strategy="snapshot")


def properties(lakehouse: Lakehouse) -> dict[str, str]:
    return view_properties(lakehouse.view_path, lakehouse.storage_options) or {}


def assert_right(totals: Lakehouse) -> None:
    """Compare with the whole query over the upstream of the first job, by Spark alone."""
    totals.assert_equals_query(TOTALS.replace("FROM upstream", "FROM {upstream}"))


@pytest.mark.exhaustive
def test_groups_over_a_view_wait_for_it_follow_it_and_are_told_of_its_rebuild(
    paid: Lakehouse, totals: Lakehouse
) -> None:
    """I7: they read only whole versions; the finishing commit switches the feed on that they need."""
    with pytest.raises(UpstreamNotFinishedError, match=r"^waits for paid, \d+ %: "):
        create(totals)
    assert FEED not in properties(paid)
    paid.finish()
    assert properties(paid)[FEED] == "true"
    create(totals)
    totals.finish()
    assert_right(totals)

    paid.sql(
        "MERGE INTO {upstream} t USING (SELECT id, concat('c', id % 5) AS country FROM range(50, 70)) s ON "
        "t.id = s.id WHEN MATCHED AND t.id < 55 THEN DELETE WHEN MATCHED THEN UPDATE SET country = s.country "
        "WHEN NOT MATCHED THEN INSERT (id, country, amount) VALUES (s.id, s.country, 9)"
    )
    paid.epoch()
    totals.epoch()
    assert_right(totals)

    paid.rebuild(name="paid", query="SELECT id, country, amount FROM upstream WHERE amount > 1")
    with pytest.raises(UpstreamNotFinishedError, match=r"^waits for paid, 0 %: "):
        totals.epoch()
    paid.finish()
    with pytest.raises(UpstreamReplacedError, match="job paid rebuilt its view, and this job is downstream of it"):
        totals.epoch()
    totals.rebuild(name="totals", query=TOTALS, strategy="snapshot")
    totals.finish()
    assert_right(totals)


@pytest.mark.exhaustive
def test_the_commit_that_finishes_a_view_switches_its_feed_on(lakehouse: Lakehouse) -> None:
    lakehouse.make_upstream("id BIGINT")
    lakehouse.sql("INSERT INTO {upstream} VALUES (1), (2)")
    lakehouse.create()
    lakehouse.finish()
    log = DeltaLog(lakehouse.view_path, lakehouse.storage_options)
    finish = next(
        version
        for version in log.versions()
        if (commit := log.commit(version)) is not None and stamp_of(commit).get("event") == "finish"
    )
    (metadata,) = [entry["metaData"] for entry in log.actions(finish) or [] if "metaData" in entry]
    assert (metadata["configuration"][FINISHED_PROPERTY], metadata["configuration"][FEED]) == ("true", "true")
    assert lakehouse.epoch() is None, "the commit is the job's own"


@pytest.mark.parametrize(
    ("query", "given", "expected"),
    [
        exhaustive("SELECT id FROM upstream", {FEED: "false"}, "false", name="switched-off"),
        exhaustive("SELECT id, id AS _commit_version FROM upstream", {}, None, name="a-column-of-the-feed"),
        exhaustive("SELECT id FROM upstream", CHANGE_DATA_FEED, "true", name="from-the-beginning"),
        exhaustive("SELECT id AS `the id`, id FROM upstream", {}, "true", name="column-mapping"),
        exhaustive("SELECT id FROM upstream", {"delta.enableDeletionVectors": "true"}, "true", name="vectors"),
    ],
)
def test_a_job_can_keep_the_feed_off_and_is_finished_where_it_cannot_be_on(
    lakehouse: Lakehouse, query: str, given: dict[str, str], expected: str | None
) -> None:
    lakehouse.make_upstream("id BIGINT")
    lakehouse.sql("INSERT INTO {upstream} VALUES (1), (2)")
    lakehouse.create(query=query, table_properties=given)
    lakehouse.finish()
    lakehouse.sql("INSERT INTO {upstream} VALUES (3)")
    lakehouse.sql("DELETE FROM {upstream} WHERE id = 1")
    lakehouse.epoch()
    assert properties(lakehouse)[FINISHED_PROPERTY] == "true"
    assert properties(lakehouse).get(FEED) == expected
    lakehouse.assert_truth()


PRESENT_ROWS = "SELECT id, country, amount FROM upstream WHERE {present}"
PRESENT_TOTALS = "SELECT country, count(*) AS n, sum(amount) AS total FROM upstream WHERE {present} GROUP BY country"


@pytest.mark.parametrize(
    ("keep", "key", "present", "query"),
    [
        ("history", ["id", "_valid_from"], "_is_current", PRESENT_TOTALS),
        exhaustive("history", ["id", "_valid_from"], "_is_current", PRESENT_ROWS, name="history-rows"),
        exhaustive("deleted", ["id"], "_deleted_at IS NULL", PRESENT_TOTALS, name="deleted"),
        exhaustive("deleted", ["id"], "_deleted_at IS NULL", PRESENT_ROWS, name="deleted-rows"),
    ],
)
def test_a_chain_reads_the_present_rows_of_a_view_that_keeps_former_ones(
    lakehouse: Lakehouse, keep: str, key: list[str], present: str, query: str
) -> None:
    """I1 and I7: rows that end leave the second view, although they stay in the first."""
    lakehouse.make_upstream("id BIGINT, country STRING, amount BIGINT")
    lakehouse.sql("INSERT INTO {upstream} SELECT id, concat('c', id % 4), id % 7 FROM range(20)")
    lakehouse.create(name="kept", keep=keep)
    lakehouse.finish()
    second = copy.copy(lakehouse)
    second.upstream_path, second.view_path, second._beginning = lakehouse.view_path, f"{lakehouse.folder}/second", None
    job = {"name": "second", "strategy": "snapshot", "key": key}
    with pytest.raises(InvalidJobError, match=f"keeps former rows .*: read the present ones with WHERE {present}"):
        second.create(**job, query=TOTALS)
    second.create(**job, query=query.format(present=present))
    second.finish()
    for statement in (
        "UPDATE {upstream} SET country = 'c9', amount = 5 WHERE id < 4",
        "DELETE FROM {upstream} WHERE id IN (1, 7, 11)",
        "INSERT INTO {upstream} VALUES (7, 'c7', 70), (30, 'c1', 3)",
    ):
        lakehouse.change(statement)
        lakehouse.epoch()
        second.epoch()
        second.assert_equals_query(query.format(present="true").replace("FROM upstream", f"FROM {lakehouse.upstream}"))
    assert lakehouse.view().count() > lakehouse.spark.read.format("delta").load(lakehouse.upstream_path).count()
    second.assert_truth()
