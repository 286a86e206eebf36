"""The control table of differences."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

from airflow_backfill_provider.core.errors import StateLayoutError
from airflow_backfill_provider.core.job.cut_over import CutOverKind, CutOverSubject
from airflow_backfill_provider.core.status.view_difference import ComparedSide, ComparedVersions, ViewDifference
from airflow_backfill_provider.state.control_table import ControlTable, Write
from airflow_backfill_provider.state.differences import SCHEMA, Differences
from tests.builders import NOW
from tests.cut_overs import ONE_CHANGED


def record(table, served=True):
    side = ComparedSide(view_version=3, epoch=2, upstreams={"upstream": 5})
    return table.record(
        lambda number: ViewDifference(
            number=number,
            job="paid_orders",
            subject=CutOverSubject(kind=CutOverKind.REBUILD, incarnation="a1", definition="d"),
            sides=ComparedVersions(served=side if served else None, waiting=side),
            rows=ONE_CHANGED,
            requested_by="vera",
            compared_at=NOW,
        )
    )


def test_differences_are_numbered_and_found_again(lake):
    table = Differences(str(lake))
    assert (table.newest(), table.numbered(1)) == (None, None)
    assert not table.table.exists()
    first, second = record(table), record(table, served=False)
    assert (first.number, second.number) == (1, 2)
    again = Differences(str(lake))
    assert (again.newest(), again.numbered(1), again.numbered(3)) == (second, first, None)
    rows = sorted(again.table.read().to_pylist(), key=lambda row: row["number"])
    assert [(row["served_version"], row["waiting_version"], row["added"]) for row in rows] == [(3, 3, 1), (None, 3, 1)]


def test_two_at_once_get_two_numbers(lake):
    record(Differences(str(lake)))
    with ThreadPoolExecutor(2) as pool:
        made = list(pool.map(lambda _: record(Differences(str(lake))).number, range(2)))
    assert sorted(made) == [2, 3]


def test_a_damaged_record_says_what_to_do(lake):
    table = Differences(str(lake))
    record(table)
    own = ControlTable(table.table.location, SCHEMA)
    row = {**own.read().to_pylist()[0], "number": 2, "record": "{}"}
    own.update(lambda rows: Write(pa.Table.from_pylist([{name: row[name] for name in SCHEMA.names}], schema=SCHEMA)))
    with pytest.raises(StateLayoutError, match="run airflow-backfill diff again"):
        Differences(str(lake)).newest()
