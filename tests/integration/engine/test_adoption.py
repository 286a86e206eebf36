"""Existing tables that become views, in place and as copies, on real Spark and Delta."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_backfill_provider import protocol
from airflow_backfill_provider.core.errors import (
    AdoptedTableDiffersError,
    BackfillError,
    InvalidJobError,
    MaterializedViewError,
)
from airflow_backfill_provider.core.status.verification import Verification
from airflow_backfill_provider.jobs.verification import verifier
from airflow_backfill_provider.lake.tables.view_identity import FINISHED_PROPERTY, view_properties
from tests.integration.engine.lakehouse import TESTER, Lakehouse
from tests.variants import exhaustive

pytestmark = pytest.mark.spark

QUERY = "SELECT id, name, price * 2 AS twice FROM upstream WHERE price >= 0"


def nightly(lake: Lakehouse, path: str, query: str = QUERY) -> int:
    """Make a table as a nightly job does; return the upstream's version that it shows."""
    lake.sql(query.replace("upstream", "{upstream}")).write.format("delta").mode("overwrite").save(path)
    return newest(lake)


def newest(lake: Lakehouse) -> int:
    found = lake.define().upstream.latest().number
    assert found is not None
    return found


def adopt(lake: Lakehouse, path: str, as_of: Any, query: str = QUERY, **options: Any) -> Any:
    return lake.create(query=query, backfill_from={"path": path, **options}, as_of=as_of)


def location(lake: Lakehouse, how: str) -> str:
    return lake.view_path if how == "in place" else f"{lake.folder}/nightly"


def finish(lake: Lakehouse) -> None:
    lake.finish()
    protocol.finish_job(store=lake.backfill.store, requested_by="tester")


@pytest.mark.parametrize("how", ["in place", "copied"])
def test_an_existing_table_becomes_the_view_and_follows_the_upstream_from_as_of(numbers: Lakehouse, how: str) -> None:
    """I1, from the first epoch on: every vnode is Completed as of ``as_of``, and the changes after it are applied."""
    as_of = nightly(numbers, location(numbers, how))
    numbers.sql("UPDATE {upstream} SET price = price + 1, name = upper(name) WHERE id % 3 = 0")
    numbers.sql("DELETE FROM {upstream} WHERE id = 5")
    settings = adopt(numbers, location(numbers, how), as_of)
    assert settings.adopted is not None
    assert settings.adopted.is_equal
    assert numbers.backfill.store.state().completed
    numbers.assert_equals_query(f"SELECT id, name, price * 2 AS twice FROM {{upstream}} VERSION AS OF {as_of}")
    properties = view_properties(numbers.view_path, numbers.storage_options)
    assert properties is not None
    assert properties[FINISHED_PROPERTY] == "false"
    commit = numbers.epoch()
    assert commit is not None
    assert commit.completed
    assert commit.snapshot_read_row_count == 0
    finish(numbers)
    numbers.assert_equals_query(QUERY.replace("upstream", "{upstream}"))
    numbers.sql("INSERT INTO {upstream} SELECT id, concat('n', id), id FROM range(50, 53)")
    numbers.epoch()
    numbers.assert_equals_query(QUERY.replace("upstream", "{upstream}"))
    numbers.assert_truth()
    assert adopt(numbers, location(numbers, how), as_of).incarnation == settings.incarnation
