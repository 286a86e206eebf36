"""What a planner of chunks sees of an arrangement: the rows that a chunk will find, whatever is stored."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from airflow_backfill_provider.core.scan.columns import OwnColumns
from airflow_backfill_provider.core.scan.keys import EVERYTHING, KeyField, KeyOrder, KeyRange
from airflow_backfill_provider.jobs import mutations
from airflow_backfill_provider.strategies.arrangement import files as arrangement
from airflow_backfill_provider.strategies.arrangement.files import ArrangementFiles, _pieces, _without_keys
from airflow_backfill_provider.strategies.arrangement.location import location_of
from tests.builders import in_order
from tests.plain_arrangement import PlainArrangement
from tests.property.backfilling import Backfilling, Prepared


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    def pause(made):
        mutations.pause_job(store=made.store, requested_by="x")

    return Prepared(tmp_path_factory.mktemp("prepared"), range(30), pause, strategy="arrangement", vnode_count=4)


@pytest.fixture
def backfilling(prepared):
    """A paused job over the orders 0 to 29, whose arrangement lies in three files."""
    return prepared.restore()


def seen(backfilling):
    """The vnodes and keys of the existing rows, in order, and what a planner gets."""
    settings = backfilling.store.settings()
    order = settings.scan.order
    rows = PlainArrangement(settings).rows(backfilling.store.last_epoch())
    files, keys = ArrangementFiles(location_of(settings)).statistics(order, settings.base_epoch, settings.own_columns)
    return in_order(rows, order), files, keys, order


def assert_as_a_chunk_finds_them(backfilling):
    positions, files, keys, order = seen(backfilling)
    found = [keys.nth(files, EVERYTHING, n) for n in range(1, len(positions) + 2)]
    assert found == [*positions, None]
    assert sum(keys.count(file, EVERYTHING) for file in files) == len(positions)
    assert all(file.row_count == keys.count(file, EVERYTHING) for file in files if file.is_exact)
    for vnode in range(4):
        within = KeyRange((vnode - 1,), (vnode,))
        assert sum(keys.count(file, within) for file in files) == sum(position[0] == vnode for position in positions)
    for file in files:
        bounds = KeyRange(None, file.upper)
        assert keys.count(file, EVERYTHING) == keys.count(file, bounds)
        assert order.compare(file.lower, keys.nth([file], EVERYTHING, 1) or file.lower) <= 0
    return files, positions


def test_without_changes_its_files_are_what_is_stored(backfilling):
    files, positions = assert_as_a_chunk_finds_them(backfilling)
    assert (len(files), sum(file.row_count for file in files), len(positions)) == (3, 30, 30)


def test_rows_that_changed_are_there_once_and_removed_ones_not_at_all(backfilling, monkeypatch):
    monkeypatch.setattr(arrangement, "PIECES", 2)
    orders = backfilling.orders
    orders.change([3, 4, 5], amount=7)
    backfilling.epoch()
    orders.change([4, 20], amount=8)
    orders.remove(5, 6)
    orders.add(40, 41)
    backfilling.epoch()
    orders.remove(41, 20)
    orders.add(6)
    backfilling.epoch()
    files, positions = assert_as_a_chunk_finds_them(backfilling)
    base = [file for file in files if not file.path.startswith("changes#")]
    pieces = [file for file in files if file.path.startswith("changes#")]
    # Of the 30 rows of the base the keys 3, 4, 5, 6 and 20 changed; 3, 4, 6 and 40 have a row now.
    assert (len(base), len(positions)) == (3, 29)
    assert 25 <= sum(file.row_count for file in base) <= 30
    assert sum(file.row_count for file in pieces) == 4
    assert ([file.row_count for file in pieces], all(file.size > 0 for file in pieces)) == ([2, 2], True)


def test_a_row_that_changed_is_taken_off_the_file_that_it_lies_in(lake):
    """Wherever the changes lie in a vnode of several files."""
    made = Backfilling(lake, strategy="arrangement", vnode_count=1)
    made.orders.add(*range(30))
    made.create()
    mutations.pause_job(store=made.store, requested_by="x")
    made.orders.change(range(4), amount=7)
    made.orders.remove(0, 9, 10)
    made.epoch()
    _, files, _, _ = seen(made)
    base = sorted((file.lower, file.row_count, file.is_exact) for file in files if "#" not in file.path)
    assert [file[1:] for file in base] == [(5, True), (9, True), (10, True)]


def test_changes_of_the_window_count_before_they_are_written(backfilling):
    backfilling.orders.change([3], amount=7)
    backfilling.orders.remove(5, 6)
    backfilling.orders.add(40)
    settings = backfilling.store.settings()
    order, latest = settings.scan.order, backfilling.orders.table.latest()
    coming = backfilling.orders.table.window_changes(settings, settings.first_offset, latest)
    files, keys = ArrangementFiles(location_of(settings)).statistics(
        order, settings.base_epoch, settings.own_columns, coming
    )
    planned = [keys.nth(files, EVERYTHING, n) for n in range(1, 31)]
    backfilling.epoch()
    positions, *_ = seen(backfilling)
    assert planned == [*positions, None]


def test_the_base_of_a_rebuilt_job_is_stamped_with_the_epoch_that_it_begins_after(backfilling):
    backfilling.orders.change([3], amount=7)
    backfilling.epoch()
    backfilling.rebuild()
    files, _ = assert_as_a_chunk_finds_them(backfilling)
    assert not any(file.path.startswith("changes#") for file in files)


def test_the_smallest_file_is_looked_for_in_the_base_alone(backfilling):
    files = ArrangementFiles(location_of(backfilling.store.settings()))
    sizes = sorted(path.stat().st_size for path in Path(files.path).glob("*.parquet"))
    assert (files.smallest_of_base(0, OwnColumns()), files.size()) == (sizes[0], sum(sizes))
    backfilling.orders.change([3], amount=7)
    backfilling.epoch()
    assert files.smallest_of_base(0, OwnColumns()) == sizes[0]
    assert files.size() > sum(sizes)
    assert files.smallest_of_base(9, OwnColumns()) == 0


def test_a_dropped_arrangement_leaves_nothing(backfilling):
    files = ArrangementFiles(location_of(backfilling.store.settings()))
    files.drop()
    assert not files.exists()
    assert not Path(files.path).exists()
    files.drop()


YEAR_10000 = 2_932_897
"""Days since 1970."""


def dates_of(*days):
    return pa.array(days, pa.int32()).view(pa.date32())


def test_the_newest_rows_of_an_arrangement_are_bounded_as_far_as_python_has_their_keys():
    order = KeyOrder((KeyField(name="__vnode", type="integer"), KeyField(name="k", type="date")))
    live = pa.table({"__vnode": pa.array([3], pa.int32()), "k": dates_of(YEAR_10000)})
    ((file, _),) = _pieces(live, order, size=1)
    assert (file.lower, file.upper) == ((3,), (3,))


def test_a_changed_row_of_the_null_group_is_counted_once():
    """Groups are often NULL, and the group's rows in the base are those that did not change since."""
    names = ["vnode", "unit", "price", "id"]
    half = Decimal("0.5")
    stored = [(1, None, half, 1), (1, None, half, 2), (1, "a", None, 3), (2, None, None, 4)]
    changed = [(1, None, half, 2), (2, None, None, 4), (3, None, None, 9)]
    tables = [pa.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))) for rows in (stored, changed)]
    left = _without_keys(tables[0], tables[1].cast(tables[0].schema))
    assert sorted(map(repr, left.to_pylist())) == sorted(
        repr(dict(zip(names, row, strict=True))) for row in (stored[0], stored[2])
    )
    assert left.schema == tables[0].schema
