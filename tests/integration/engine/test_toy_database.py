"""
A database that only a folder of the tests knows goes through a whole backfill, from one line that registers it.

Its rows come from the database, and its changes through a change log, as PostgreSQL's do. So no code outside of its
folder may depend on the database: what Spark needs for it, what Spark's errors mean, and how values are written.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator

import pytest
from pyspark.errors import PySparkException

from airflow_backfill_provider.applications.spark_settings import packages
from airflow_backfill_provider.core.epoch.crash_points import CrashPoint
from airflow_backfill_provider.core.errors import DatabaseUnavailableError, UpstreamError
from airflow_backfill_provider.sources import KINDS
from airflow_backfill_provider.spark.spark_errors import epoch_errors
from tests.dying import dies_at
from tests.integration.engine.lakehouse import Lakehouse
from tests.toy_database import Toy
from tests.toy_database.server import ToyServer


@pytest.fixture
def registered() -> Iterator[None]:
    KINDS.register(Toy())
    yield
    KINDS.forget(Toy.name)


@pytest.mark.usefixtures("registered")
def test_what_a_kind_declares_is_in_force_where_spark_is_set_up_and_where_its_errors_are_read():
    assert packages()[-1] == "org.example:toy-driver:1.0"
    with (
        pytest.raises(DatabaseUnavailableError, match=r"^epoch 3: the toy database went away"),
        epoch_errors("epoch 3"),
    ):
        raise PySparkException("Job aborted: org.example.ToyException: gone away")
    raised = "[USER_RAISED_EXCEPTION] TOY_LEFT_OUT a.b SQLSTATE: P0001"
    with pytest.raises(UpstreamError, match=r"^epoch 3: .* did not log column a\.b; "), epoch_errors("epoch 3"):
        raise PySparkException(raised)


@pytest.mark.exhaustive
@pytest.mark.spark
@pytest.mark.usefixtures("registered")
def test_a_database_in_one_folder_survives_a_crash_and_ends_with_the_query_of_its_rows(lakehouse: Lakehouse) -> None:
    """I1 and I2."""
    server = ToyServer(f"{lakehouse.folder}/toy.db")
    server.make()
    for key in range(12):
        server.put(key, f"{key + 1:02}.12.2025", f"n{key}")
    lakehouse.create(
        upstream={"toy": {"file": f"{lakehouse.folder}/toy.db", "key": ["id"]}},
        query="SELECT id, day, name FROM upstream WHERE id <> 7",
        rate_limit=5,
    )
    lakehouse.epoch()
    server.put(1, "31.12.2025", "changed")
    server.delete(2)
    server.put(99, "01.01.2026", "new")
    server.put(7, "01.01.2026", "left out")
    with dies_at(CrashPoint.AFTER_CHANGES_COMMIT):
        lakehouse.epoch()
    lakehouse.finish()
    server.delete(99)
    server.put(3, "02.01.2026", "last")
    lakehouse.epoch()
    lakehouse.assert_truth()
    assert {tuple(row) for row in lakehouse.view().select("id", "day", "name").collect()} == {
        (key, dt.datetime.strptime(day, "%d.%m.%Y").date(), name) for key, day, name in server.rows() if key != 7
    }
