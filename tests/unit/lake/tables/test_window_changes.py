"""Which (vnode, key) a window changes, as a planner sees it before the arrangement has it."""

from __future__ import annotations

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from airflow_backfill_provider.core.epoch.settings import ResolvedUpstream, UpstreamColumn
from airflow_backfill_provider.core.scan.columns import OwnColumns
from airflow_backfill_provider.lake.tables import window_changes as module
from airflow_backfill_provider.lake.tables.window_changes import window_changes
from tests.builders import Orders, job_of, settings_of, write_table

GONE, NEW, KEPT = (False, False), (True, True), (True, False)
NEVER_SEEN = (False, True)
"""Added and removed again."""


@pytest.fixture
def orders(lake):
    """The orders 1 to 3."""
    made = Orders(lake)
    made.add(1, 2, 3)
    return made


OWN = OwnColumns()


def changed(orders, from_version=0, *, key=None, **job):
    """Whether each changed key exists and is new, or the same of one key in each of its vnodes."""
    settings = settings_of(job_of(orders.path.removesuffix("/orders"), vnode_count=64, **job), strategy="arrangement")
    found = window_changes(DeltaTable(orders.path), settings, from_version)
    assert found is not None
    rows = found.to_pylist()
    return sorted(
        (row["id"], (row[OWN.is_upsert], row[OWN.appeared])) for row in rows if key is None or row["id"] == key
    )


def test_a_window_without_versions_changes_nothing(orders):
    assert changed(orders) == []


def test_inserted_deleted_and_reinserted_keys_are_returned(orders):
    orders.add(4, 5)
    orders.remove(1, 4)
    orders.remove(2)
    orders.add(2)
    assert changed(orders) == [(1, GONE), (2, KEPT), (3, KEPT), (4, NEVER_SEEN), (5, NEW)]


def test_a_row_that_moves_between_vnodes_is_gone_from_the_one_and_new_in_the_other(orders):
    upstream = {"path": orders.path, "key": ["id"], "distribution_key": ["status"]}
    orders.change([2], status="new")
    assert changed(orders, key=2, upstream=upstream) == [(2, GONE), (2, NEW)]
    orders.change([2], status="paid")
    assert changed(orders, key=2, upstream=upstream) == [(2, NEVER_SEEN), (2, KEPT)]


def test_only_keys_that_the_job_is_about_are_returned(orders):
    orders.add(4, 5)
    assert changed(orders, restrict_to={"keys": {"after": [4]}}) == [(5, NEW)]
    parts = [changed(orders, restrict_to={"vnodes": [f"{first}-{first + 31}"]}) for first in (0, 32)]
    assert sorted(parts[0] + parts[1]) == [(4, NEW), (5, NEW)]


@pytest.mark.parametrize("name", ["ID", "a.b", "two words", 'q"x', "a`b", "ünï"])
def test_a_key_may_have_any_name(lake, name):
    columns = {name: pa.array([1, 2])}
    for _ in range(2):
        write_table(lake / "orders", columns)
    job = job_of(lake, upstream={"path": f"{lake}/orders", "key": [name]}, query="SELECT 1 AS one FROM upstream")
    upstream = ResolvedUpstream(table_id="t", columns=(UpstreamColumn(name=name, type="long"),))
    found = window_changes(DeltaTable(f"{lake}/orders"), settings_of(job, upstream=upstream), 0)
    assert found is not None
    assert sorted(found.column(name).to_pylist()) == [1, 2]


def test_too_many_changes_are_not_read(orders, monkeypatch):
    orders.add(4, 5)
    monkeypatch.setattr(module, "MOST_CHANGES", 2)
    assert len(changed(orders)) == 2
    monkeypatch.setattr(module, "MOST_CHANGES", 1)
    assert window_changes(DeltaTable(orders.path), settings_of(job_of("/lake")), 0) is None


def test_vnodes_of_types_that_spark_alone_hashes_are_unknown(orders):
    orders.add(4)
    settings = settings_of(
        job_of(upstream={"path": orders.path, "key": ["id"], "distribution_key": ["amount"]}),
        types={"id": "long", "status": "string", "amount": "double"},
    )
    assert window_changes(DeltaTable(orders.path), settings, 0) is None


def test_an_empty_value_of_a_partition_column_is_null(lake):
    """Else the vnode and the key of a change would be those of another row."""
    folder = lake / "orders"
    for version, status in enumerate(["paid", "", None]):
        rows = {"id": pa.array([version]), "status": pa.array([status], pa.string()), "amount": pa.array([1])}
        write_table(folder, rows, partition_by=["status"])
    job = job_of(str(lake), upstream={"path": str(folder), "key": ["status", "id"]}, vnode_count=64)
    found = window_changes(DeltaTable(folder), settings_of(job, strategy="arrangement"), 0)
    assert found is not None
    assert sorted((row["id"], row["status"]) for row in found.to_pylist()) == [(1, None), (2, None)]
