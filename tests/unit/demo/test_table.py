"""The demo's table and its writer: the same each time, keys that stay unique, a correct change feed."""

from __future__ import annotations

import shutil
from collections import Counter
from itertools import pairwise

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder

from airflow_backfill_provider.core.job.definition import BackfillJob
from demo.delta.table import create_orders
from demo.delta.upstream import delta_upstream
from demo.delta.writer import DeltaWriter
from demo.folder import DemoError, DemoFolder, fresh_folder, size_from_environment
from demo.job import QUERY, write_job
from demo.orders import SCHEMA

pytestmark = pytest.mark.slow  # makes a table as large as the writer needs


@pytest.fixture(scope="module")
def created(tmp_path_factory):
    """The table, created once. Tests copy it."""
    path = tmp_path_factory.mktemp("created") / "orders"
    create_orders(path, 6000)
    return path


@pytest.fixture
def folder(tmp_path, created):
    folder = DemoFolder(tmp_path)
    shutil.copytree(created, folder.orders)
    return folder


def rows_of(path) -> list[tuple]:
    table = QueryBuilder().register("orders", DeltaTable(str(path)))
    rows = table.execute("SELECT * FROM orders ORDER BY region, order_id").read_all()
    return [tuple(row.values()) for row in pa.table(rows).to_pylist()]


def test_the_table_is_the_same_each_time(folder, tmp_path):
    create_orders(tmp_path / "again", 6000)
    rows = rows_of(folder.orders)
    assert rows == rows_of(tmp_path / "again")
    assert len(rows) == 6000
    assert len({row[:2] for row in rows}) == 6000


def test_the_table_has_a_change_feed_and_files_in_key_order(folder):
    table = DeltaTable(folder.orders)
    assert table.metadata().configuration["delta.enableChangeDataFeed"] == "true"
    assert table.schema().to_arrow()
    files = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    ranges = sorted(
        ((file["min.region"], file["min.order_id"]), (file["max.region"], file["max.order_id"])) for file in files
    )
    assert all(upper < lower for (_, upper), (lower, _) in pairwise(ranges))


def test_the_writer_changes_rows_in_every_way_and_keeps_keys_unique(folder):
    writer = DeltaWriter(folder.orders, seed=3)
    for _ in range(40):
        writer.commit()
    report = writer.report
    assert min(report.inserted, report.updated, report.deleted, report.rekeyed) > 0
    rows = rows_of(folder.orders)
    assert len(rows) == 6000 + report.inserted - report.deleted
    assert max(Counter(row[:2] for row in rows).values()) == 1


@pytest.mark.exhaustive
def test_the_change_feed_leads_from_one_version_to_the_other(folder):
    before = Counter(rows_of(folder.orders))
    version = DeltaTable(folder.orders).version()
    writer = DeltaWriter(folder.orders, seed=4)
    for _ in range(30):
        writer.commit()
    feed = pa.table(DeltaTable(folder.orders).load_cdf(starting_version=version + 1).read_all())
    for change in sorted(feed.to_pylist(), key=lambda row: row["_commit_version"]):
        row = tuple(change[field.name] for field in SCHEMA)
        before[row] += {"insert": 1, "update_postimage": 1, "delete": -1, "update_preimage": -1}[change["_change_type"]]
    assert +before == Counter(rows_of(folder.orders))
    assert not -before


def test_the_job_file_is_a_valid_job(tmp_path):
    folder = DemoFolder(tmp_path / "it's here")
    folder.path.mkdir()
    write_job(folder, delta_upstream(folder.orders), rate_limit=5)
    job = BackfillJob.from_yaml(folder.job)
    assert job.query.strip() == QUERY.strip()
    assert (job.upstream.location, job.rate_limit) == (folder.orders, 5)


def test_each_demo_begins_with_an_empty_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv("DEMO_FOLDER", str(tmp_path / "demo"))
    with fresh_folder(".demo") as folder:
        folder.writer_report.write_text("{}")
        with pytest.raises(DemoError, match="another demo runs"), fresh_folder(".demo"):
            pass
    with fresh_folder(".demo") as folder:
        assert not folder.writer_report.exists()


def test_a_folder_that_no_demo_made_is_left_alone(tmp_path, monkeypatch):
    (tmp_path / "thesis.txt").write_text("all of it")
    monkeypatch.setenv("DEMO_FOLDER", str(tmp_path))
    with pytest.raises(DemoError, match="no demo made"), fresh_folder(".demo"):
        pass
    assert (tmp_path / "thesis.txt").exists()


@pytest.mark.parametrize("value", ["many", "-5", "0"])
def test_an_invalid_size_is_refused(monkeypatch, value):
    monkeypatch.setenv("DEMO_ROWS", value)
    with pytest.raises(DemoError, match="DEMO_ROWS"):
        size_from_environment()
