"""
Upstreams partitioned by a column that Delta generates from the key, by writers in zones of their own.

Delta turns a condition on the key into one on the partition column, and computes it in the reader's zone. The engine
reads in UTC, so such a condition would leave out rows at the edges of a day.
"""

from __future__ import annotations

import pytest

from airflow_backfill_provider.applications.connect import connected
from airflow_backfill_provider.applications.connect_engine import ConnectEngine
from airflow_backfill_provider.core.remote import Remote
from tests.integration.engine.lakehouse import CHANGE_DATA_FEED, Lakehouse
from tests.variants import exhaustive

pytestmark = pytest.mark.spark

DAY = "day DATE GENERATED ALWAYS AS (CAST(ts AS DATE))"
HOUR = "day STRING GENERATED ALWAYS AS (DATE_FORMAT(ts, 'yyyy-MM-dd-HH'))"
ROWS = 20


def make(lakehouse: Lakehouse, generated: str) -> None:
    """Create the empty upstream."""
    properties = ", ".join(f"'{name}' = '{value}'" for name, value in CHANGE_DATA_FEED.items())
    lakehouse.sql(
        f"CREATE TABLE {{upstream}} (id BIGINT, ts TIMESTAMP, {generated}) USING delta PARTITIONED BY (day) "
        f"TBLPROPERTIES ({properties})"
    )


def insert(lakehouse: Lakehouse, zone: str, first: int, last: int) -> None:
    """Insert rows two hours apart, from a session in another time zone; each day has one file."""
    session = lakehouse.spark.newSession()
    session.conf.set("spark.sql.session.timeZone", zone)
    session.sql(
        f"INSERT INTO {lakehouse.upstream} (id, ts) "
        f"SELECT id, TIMESTAMP'2026-03-01 00:30:00Z' + make_dt_interval(0, id * 2) FROM range({first}, {last}, 1, 1)"
    )


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("zone", "descending", "generated"),
    [
        pytest.param("America/Los_Angeles", False, DAY, id="west"),
        exhaustive("Asia/Tokyo", True, DAY, name="east, descending"),
        exhaustive("Asia/Tokyo", False, DAY, name="east"),
        exhaustive("America/Los_Angeles", True, DAY, name="west, descending"),
        exhaustive("Asia/Kolkata", False, HOUR, name="hours"),
    ],
)
def test_no_row_is_left_out_by_a_condition_on_a_generated_column(
    lakehouse: Lakehouse, zone: str, descending: bool, generated: str
) -> None:
    """I6: every chunk has all of its rows, whichever zone the upstream's writers are in."""
    make(lakehouse, generated)
    insert(lakehouse, zone, 0, ROWS)
    lakehouse.create(
        key=[{"column": "ts", "descending": descending}], query="SELECT id, ts FROM upstream", rate_limit=7
    )
    assert lakehouse.epoch()
    insert(lakehouse, zone, ROWS, ROWS + 4)
    lakehouse.finish()
    lakehouse.assert_equals_query("SELECT id, ts FROM {upstream}")
    lakehouse.assert_truth()


@pytest.mark.exhaustive
def test_no_row_is_left_out_through_spark_connect(lakehouse: Lakehouse, spark_remote: str) -> None:
    """I6: a session of a server gets the setting, too."""
    make(lakehouse, DAY)
    insert(lakehouse, "America/Los_Angeles", 0, ROWS)
    lakehouse.create(key=["ts"], query="SELECT id, ts FROM upstream", rate_limit=7)
    with connected(Remote.parse(spark_remote), what="a test") as connection:
        engine = ConnectEngine(connection, None, purpose="epoch")
        while (barrier := lakehouse.inject()) is not None:
            lakehouse.run(barrier, engine)
    lakehouse.assert_equals_query("SELECT id, ts FROM {upstream}")
