"""Which versions of a table stay open."""

from __future__ import annotations

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from airflow_backfill_provider.lake.log.delta_log import DeltaLog
from airflow_backfill_provider.lake.tables.data_files import DataFiles
from airflow_backfill_provider.sources.delta.open_versions import OpenVersions


@pytest.fixture
def table(tmp_path):
    for number in range(3):
        write_deltalake(tmp_path, pa.table({"k1": [number]}), mode="append")
    return tmp_path


class Counted:
    """Versions of a table, and those that were opened."""

    def __init__(self, table):
        self.log = DeltaLog(str(table))
        self.opened = []
        self.versions = OpenVersions(self.log, self.open)
        self.table = table

    def open(self, version):
        self.opened.append(version)
        return DataFiles(DeltaTable(self.table, version=version), str(self.table), {})


def test_the_last_two_versions_stay_open(table):
    counted = Counted(table)
    for version in (0, 2, 0, 2, 2, 0):
        assert counted.versions.files(version).version == version
    assert counted.opened == [0, 2]
    counted.versions.files(1)
    counted.versions.files(0)
    assert counted.opened == [0, 2, 1, 0]


def test_a_described_version_is_opened_again_if_its_commit_is_another_one(table):
    counted = Counted(table)
    counted.log.versions()
    first = counted.versions.as_listed(1)
    assert counted.versions.as_listed(1) is first
    commit = table / "_delta_log" / f"{1:020d}.json"
    commit.write_bytes(commit.read_bytes() + b"\n")
    counted.log.versions()
    assert counted.versions.as_listed(1) is not first
    assert counted.opened == [1, 1]


def test_the_newest_version_is_always_looked_up(table):
    counted = Counted(table)
    assert counted.versions.as_listed(None).version == 2
    write_deltalake(table, pa.table({"k1": [3]}), mode="append")
    assert counted.versions.as_listed(None).version == 3
