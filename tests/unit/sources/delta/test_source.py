"""The upstream as its log shows it, on real Delta tables."""

from __future__ import annotations

import datetime as dt
import json
import os
import shutil
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Schema, write_deltalake

from airflow_backfill_provider.core.errors import (
    ChangeDataFeedDisabledError,
    ChangeFeedGapError,
    UpstreamError,
    UpstreamNotFoundError,
    UpstreamReplacedError,
    UpstreamSchemaChangedError,
)
from airflow_backfill_provider.core.keys import EVERYTHING, KeyField, KeyOrder, KeyRange
from airflow_backfill_provider.core.offset import HistoryPoint
from airflow_backfill_provider.core.settings import ResolvedUpstream, UpstreamColumn
from airflow_backfill_provider.core.upstream import KeyColumn
from airflow_backfill_provider.lake.key_index import arrow_type
from airflow_backfill_provider.sources.delta.source import DeltaSource
from airflow_backfill_provider.sources.delta.versions import offset_of
from tests.builders import (
    NOW,
    Orders,
    Template,
    commit_file,
    committed_at,
    edit_commit,
    in_order,
    order_of,
    window_of,
    write_table,
)


@pytest.fixture
def orders(lake):
    """An upstream whose path has spaces, quotes, a backtick, a hash and unicode."""
    return Orders(lake)


def order_by(*names, kind="long"):
    return KeyOrder(tuple(KeyField(name=name, type=kind) for name in names))


# --- the table ------------------------------------------------------------------------------------


def test_a_version_is_described_by_the_log_alone(orders):
    orders.add(1)
    orders.add(2)
    for file in Path(orders.path).glob("*.parquet"):
        file.unlink()
    described = orders.table.at()
    assert (described.offset.number, described.change_data_feed) == (1, True)
    assert described.types == {"id": "long", "status": "string", "amount": "long"}
    assert described.table_id == str(DeltaTable(orders.path).metadata().id)
    assert orders.table.latest().number == 1
    assert orders.table.at(offset_of(0)).offset == offset_of(0)


def test_nested_types_are_described_so_that_a_change_shows(tmp_path):
    one = write_table(tmp_path / "a", {"s": pa.array([{"x": 1}]), "l": pa.array([[1]])}).at().types
    other = write_table(tmp_path / "b", {"s": pa.array([{"y": 1}]), "l": pa.array([["a"]])}).at().types
    assert json.loads(one["s"])["type"] == "struct"
    assert one["s"] != other["s"]
    assert one["l"] != other["l"]


@pytest.mark.parametrize("make", ["nothing", "an empty folder", "files", "a file"])
def test_a_place_without_a_table_says_what_to_do(tmp_path, make):
    """I6."""
    place = tmp_path / "orders"
    if make == "a file":
        place.write_text("x")
    elif make != "nothing":
        place.mkdir()
        if make == "files":
            (place / "data.csv").write_text("x")
    for look in (DeltaSource(str(place)).latest, DeltaSource(str(place)).at):
        with pytest.raises(UpstreamNotFoundError) as caught:
            look()
        assert str(place) in str(caught.value)


def test_looking_for_a_table_makes_none(tmp_path):
    with pytest.raises(UpstreamNotFoundError, match=r"check upstream\.path, or create the table first"):
        DeltaSource(str(tmp_path / "orders")).at()
    assert list(tmp_path.iterdir()) == []


def test_a_version_that_does_not_exist_is_named(orders):
    orders.add(1)
    with pytest.raises(UpstreamNotFoundError, match="at version 5"):
        orders.table.at(offset_of(5))


def test_a_damaged_log_is_an_upstream_that_cannot_be_read(orders):
    orders.add(1)
    commit_file(orders.path, 0).write_text('{"metaData": {"id"', encoding="utf-8")
    with pytest.raises(UpstreamNotFoundError, match="cannot be read"):
        orders.table.at()


# --- what the job was created on ------------------------------------------------------------------


def as_created(described, **types):
    return ResolvedUpstream(
        table_id=described.table_id,
        columns=tuple(UpstreamColumn(name=n, type=t) for n, t in (types or described.types).items()),
    )


def test_the_table_of_creation_is_accepted_also_with_more_columns(orders):
    orders.add(1)
    created = as_created(orders.table.at())
    DeltaTable(orders.path).alter.add_columns(
        Schema.from_json(
            '{"type":"struct","fields":[{"name":"note","type":"string","nullable":true,"metadata":{}}]}'
        ).fields
    )
    orders.table.at().require_as_created(created)


def test_another_table_at_the_path_is_refused(orders):
    """I6, design §5: an old range would return the new table's rows."""
    orders.add(1)
    created = as_created(orders.table.at())
    shutil.rmtree(orders.path)
    orders.add(1)
    with pytest.raises(UpstreamReplacedError, match="rebuild the job") as caught:
        orders.table.at().require_as_created(created)
    assert created.table_id in str(caught.value)
    with pytest.raises(UpstreamReplacedError):
        orders.table.at().require_same_table(created)


def test_columns_that_are_gone_or_of_another_type_are_all_named(orders):
    """I6."""
    orders.add(1)
    described = orders.table.at()
    created = as_created(described, id="integer", status="string", customer="long")
    with pytest.raises(UpstreamSchemaChangedError, match="as of version 0") as caught:
        described.require_as_created(created)
    assert "column 'id' was integer and is long; column 'customer' is gone" in str(caught.value)
    assert "status" not in str(caught.value)
    assert "adapt the job's query and rebuild it" in str(caught.value)


def test_a_table_without_change_data_feed_gets_the_statement_that_switches_it_on(tmp_path):
    """I6."""
    path = tmp_path / "a `quoted` table"
    write_deltalake(str(path), pa.table({"id": [1]}))
    described = DeltaSource(str(path)).at()
    with pytest.raises(ChangeDataFeedDisabledError) as caught:
        described.require_usable()
    quoted = str(path).replace("`", "``")
    assert f"ALTER TABLE delta.`{quoted}` SET TBLPROPERTIES (delta.enableChangeDataFeed = true)" in str(caught.value)
    with pytest.raises(ChangeDataFeedDisabledError):
        described.require_as_created(as_created(described))


@pytest.mark.parametrize(("value", "on"), [("true", True), ("TRUE", True), ("false", False)])
def test_the_feed_is_on_as_of_the_version_looked_at(orders, value, on):
    orders.add(1)
    DeltaTable(orders.path).alter.set_table_properties({"delta.enableChangeDataFeed": value})
    assert orders.table.at().change_data_feed is on
    assert orders.table.at(offset_of(0)).change_data_feed


# --- versions and instants ------------------------------------------------------------------------


def at_minute(minute):
    return NOW + dt.timedelta(minutes=minute)


@pytest.fixture(scope="module")
def six_versions(tmp_path_factory):
    def make(place):
        orders = Orders(place)
        for i in range(6):
            orders.add(i)
            committed_at(orders.path, i, at_minute(i))

    return Template(tmp_path_factory.mktemp("dated"), make)


@pytest.fixture
def every_minute(six_versions):
    """Six versions, committed at the minutes 0 to 5."""
    return Orders(six_versions.restore())


@pytest.mark.parametrize(
    ("minute", "version"), [(-1000, None), (-0.001, None), (0, 0), (0.5, 0), (2.999, 2), (3, 3), (5, 5), (10**6, 5)]
)
def test_the_version_at_an_instant_is_the_newest_committed_by_then(every_minute, minute, version):
    assert every_minute.table.offset_at(at_minute(minute)) == (None if version is None else offset_of(version))


def test_an_instant_in_another_zone_is_the_same_instant(every_minute):
    zone = dt.timezone(dt.timedelta(hours=-8))
    assert every_minute.table.offset_at(at_minute(3).astimezone(zone)) == offset_of(3)


def test_versions_at_the_same_instant_count_as_a_millisecond_apart(every_minute):
    """As Delta counts them."""
    for version in (2, 3, 4):
        committed_at(every_minute.path, version, at_minute(2))
    millisecond = dt.timedelta(milliseconds=1)
    found = [every_minute.table.offset_at(at_minute(2) + n * millisecond) for n in (-1, 0, 1, 2, 3)]
    assert found == [*map(offset_of, (1, 2, 3, 4, 4))]


def test_a_version_that_was_written_before_the_one_before_it_counts_behind_it(every_minute):
    """Clocks go backwards; a search over such times answers anything."""
    committed_at(every_minute.path, 1, at_minute(4))
    millisecond = dt.timedelta(milliseconds=1)
    found = [every_minute.table.offset_at(instant) for instant in (at_minute(3), at_minute(4), at_minute(4.5))]
    assert found == [*map(offset_of, (0, 1, 4))]
    assert every_minute.table.watermark(offset_of(3)) == at_minute(4) + 2 * millisecond


def test_what_a_commit_says_of_its_time_is_not_asked(every_minute):
    """Delta goes by when the file was written, unless the table records timestamps on purpose."""
    for version, stated in ((2, 1), (3, 9_999_999_999_999)):
        file = commit_file(every_minute.path, version)
        written = file.stat().st_mtime_ns
        edit_commit(every_minute.path, version, timestamp=stated)
        os.utime(file, ns=(written, written))
    assert [every_minute.table.offset_at(at_minute(minute)) for minute in (1, 2, 3)] == [*map(offset_of, (1, 2, 3))]


def test_an_instant_before_what_can_be_read_has_no_version(every_minute):
    """The oldest one is that of a checkpoint, whose earlier commits may still be there."""
    DeltaTable(every_minute.path, version=3).create_checkpoint()
    for version in range(2):
        commit_file(every_minute.path, version).unlink()
    assert every_minute.table.offset_at(at_minute(2)) is None
    assert every_minute.table.offset_at(at_minute(3)) == offset_of(3)


def test_the_watermark_is_the_versions_commit_time(every_minute):
    """Design §5.13."""
    assert every_minute.table.watermark(offset_of(4)) == at_minute(4)


def test_the_watermark_of_a_version_that_was_cleaned_up_is_a_gap(every_minute):
    commit_file(every_minute.path, 0).unlink()
    with pytest.raises(ChangeFeedGapError, match="version 0"):
        every_minute.table.watermark(offset_of(0))


# --- another log ----------------------------------------------------------------------------------


def window_at(version, minute):
    return window_of(0, version, mark=at_minute(minute).isoformat()).end


def test_a_log_that_went_on_is_the_same(every_minute):
    for version in range(6):
        every_minute.table.require_same_history(window_at(version, version))


def test_a_log_that_went_back_is_another(every_minute):
    """Put back from an older copy: what comes next has numbers that were read already."""
    for version in (4, 5):
        commit_file(every_minute.path, version).unlink()
    with pytest.raises(
        UpstreamReplacedError, match="ends with version 3, but the job has read up to version 4; .* rebuild"
    ):
        every_minute.table.require_same_history(window_at(4, 4))


def test_a_log_in_which_a_version_was_written_at_another_time_is_another(every_minute):
    with pytest.raises(UpstreamReplacedError, match="version 4 of .* was written at .* older copy"):
        every_minute.table.require_same_history(window_at(4, 4.001))


def test_of_a_commit_that_was_cleaned_up_or_does_not_say_when_nothing_is_known(every_minute):
    edit_commit(every_minute.path, 3, timestamp=None)
    commit_file(every_minute.path, 2).unlink()
    for version in (2, 3):
        assert every_minute.table.log.written_at(version) is None
        every_minute.table.require_same_history(window_at(version, 99))


def test_of_a_version_that_was_come_to_at_nobody_knows_what_time_nothing_is_known(every_minute):
    every_minute.table.require_same_history(HistoryPoint(offset=4))


def test_a_version_before_the_log_begins_is_gone_and_not_the_table(every_minute):
    DeltaTable(every_minute.path).create_checkpoint()
    for version in range(3):
        commit_file(every_minute.path, version).unlink()
    with pytest.raises(ChangeFeedGapError, match="version 2 of .* is gone: .* begins with version 3"):
        every_minute.table.row_count(offset_of(2))


# --- gaps -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def ten_versions(tmp_path_factory):
    def make(place):
        orders = Orders(place)
        for i in range(10):
            orders.add(i)
        DeltaTable(orders.path).create_checkpoint()
        for version in range(5):
            commit_file(orders.path, version).unlink()

    return Template(tmp_path_factory.mktemp("cleaned"), make)


@pytest.fixture
def cleaned(ten_versions):
    """A table with the versions 0 to 9 of whose log 0 to 4 were cleaned up behind a checkpoint."""
    return Orders(ten_versions.restore()).table


@pytest.mark.parametrize(("from_version", "to_version"), [(4, 9), (5, 9), (8, 9), (9, 9), (3, 3), (9, 3)])
def test_a_window_that_the_log_still_holds_is_accepted(cleaned, from_version, to_version):
    assert cleaned.latest().number == 9
    cleaned.require_changes(offset_of(from_version), offset_of(to_version))


@pytest.mark.parametrize(("from_version", "first"), [(-1, 0), (0, 1), (3, 4)])
def test_a_window_whose_versions_were_cleaned_up_is_refused(cleaned, from_version, first):
    """I6: a change feed gap."""
    with pytest.raises(ChangeFeedGapError, match=f"from version {first} on, but its log begins at version 5") as caught:
        cleaned.require_changes(offset_of(from_version), offset_of(9))
    assert "Rebuild the job" in str(caught.value)
    assert "delta.logRetentionDuration" in str(caught.value)


def test_a_log_without_commits_is_a_gap(cleaned):
    for version in range(5, 10):
        commit_file(cleaned.location, version).unlink()
    with pytest.raises(ChangeFeedGapError, match="begins at version none"):
        cleaned.require_changes(offset_of(3), offset_of(9))


def test_a_hole_in_the_middle_of_the_window_is_a_gap(cleaned):
    """I6: as of a restore of some files only; found here, before Spark is started for it."""
    commit_file(cleaned.location, 7).unlink()
    with pytest.raises(ChangeFeedGapError):
        cleaned.require_changes(offset_of(5), offset_of(9))


def test_a_window_whose_last_version_is_missing_is_a_gap(cleaned):
    commit_file(cleaned.location, 9).unlink()
    with pytest.raises(ChangeFeedGapError, match="its log lacks version 9"):
        cleaned.require_changes(offset_of(5), offset_of(9))


def test_whether_a_window_changed_rows(orders):
    orders.add(1)
    orders.add(2)
    orders.compact()
    orders.add(3)
    table = orders.table
    assert table.has_changes(offset_of(0), offset_of(1))
    assert not table.has_changes(offset_of(1), offset_of(2)), "compaction changes no row"
    assert table.has_changes(offset_of(1), offset_of(3))
    assert not table.has_changes(offset_of(3), offset_of(3))
    commit_file(orders.path, 2).unlink()
    assert table.has_changes(offset_of(1), offset_of(2)), "who knows what it was"


def test_a_long_window_is_not_read_commit_by_commit(orders):
    orders.add(1)
    assert orders.table.has_changes(offset_of(0), offset_of(10**6))


# --- data files -----------------------------------------------------------------------------------

VALUES = {
    "byte": [-128, 127, 0],
    "short": [-32768, 5],
    "integer": [-(2**31), 2**31 - 1],
    "long": [-(2**63), 2**63 - 1, 2**53 + 1],
    "string": ["a", "ä", "\U00010000", "\ufffd", "x" * 31 + "é", "x" * 200 + "z", "\U0010ffff" * 40],
    "decimal(5,3)": [Decimal("-99.999"), Decimal("0.001")],
    "decimal(15,2)": [Decimal("-9999999999999.99"), Decimal("9999999999999.98")],
    "date": [dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(9999, 12, 31)],
    "timestamp": [
        dt.datetime(1969, 12, 31, 23, 59, 59, 999999, dt.UTC),
        dt.datetime(2024, 2, 29, 0, 0, 0, 1999, dt.UTC),
        dt.datetime(1, 1, 1, tzinfo=dt.UTC),
    ],
    "timestamp_ntz": [dt.datetime(1969, 12, 31, 23, 59, 59, 999999), dt.datetime(2024, 3, 31, 2, 30, 0, 1001)],
    "binary": [b"", b"\x00", b"\xff"],
    "boolean": [True, False],
}


def assert_bounds_hold_all_keys(table, order, keys_by_file):
    """Statistics are hints: a bound may be wide, but no key may lie outside of it."""
    files, index = table.files_at(offset_of(table.latest().number)).statistics(order)
    assert len(files) == len(keys_by_file)
    found = []
    for file in files:
        keys = [index.nth([file], EVERYTHING, n) for n in range(1, file.row_count + 1)]
        assert index.nth([file], EVERYTHING, file.row_count + 1) is None
        for key in keys:
            assert order.compare(file.lower, key) <= 0
            assert order.compare(key, file.upper) <= 0
        found.append([order.encode(key) for key in keys])
    in_file = [in_order([(value,) for value in keys], order) for keys in keys_by_file]
    assert sorted(found, key=str) == sorted(([order.encode(key) for key in keys] for keys in in_file), key=str)


@pytest.mark.slow
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize(
    "kind",
    [*VALUES, "decimal(20,2)", "decimal(38,0)"],
)
def test_no_key_of_any_type_lies_outside_of_its_files_bounds(tmp_path, kind, descending):
    """A bound that is too narrow lets a chunk exceed its rate limit."""
    values = VALUES | {
        "decimal(20,2)": [Decimal("1234567890123456.82"), Decimal("1234567890123456.80")],
        "decimal(38,0)": [Decimal("9" * 38), Decimal(1)],
    }
    order = order_of((kind, descending))
    columns = [values[kind], values[kind][:1], [None, *values[kind][1:]], [None, None]]
    for column in columns:
        table = write_table(tmp_path / "t", {"k1": pa.array(column, arrow_type(order.fields[0]))})
    assert table.at().types["k1"] == kind
    assert_bounds_hold_all_keys(table, order, columns)


@pytest.mark.parametrize("kind", ["timestamp", "timestamp_ntz"])
def test_the_end_of_time_is_a_key_like_any_other(tmp_path, kind):
    """9999-12-31 23:59:59.999 is what many systems write for `forever`."""
    order = order_of(kind)
    forever = dt.datetime(9999, 12, 31, 23, 59, 59, 999000, dt.UTC if kind == "timestamp" else None)
    table = write_table(tmp_path / "t", {"k1": pa.array([forever], arrow_type(order.fields[0]))})
    assert_bounds_hold_all_keys(table, order, [[forever]])


def test_a_missing_statistic_leaves_a_bound_open_from_there_on(tmp_path):
    """Design: statistics of the leading columns are used, as far as they go."""
    columns = {"a": pa.array([1, 2]), "b": pa.array([b"x", b"y"]), "c": pa.array([3, 4])}
    order = KeyOrder(
        (
            KeyField(name="a", type="long"),
            KeyField(name="b", type="binary"),
            KeyField(name="c", type="long", descending=True),
        )
    )
    files, index = write_table(tmp_path / "t", columns).files_at(offset_of(0)).statistics(order)
    assert (files[0].lower, files[0].upper) == ((1,), (2,))
    assert index.nth(files, EVERYTHING, 2) == (2, b"y", 4)


def test_files_without_statistics_have_no_bounds_and_are_counted_by_their_footer(tmp_path):
    table = write_table(tmp_path / "t", {"k": pa.array([3, 1, 2])})
    file = commit_file(table.location, 0)
    actions = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    for action in actions:
        action.get("add", {}).pop("stats", None)
    file.write_text("\n".join(map(json.dumps, actions)), encoding="utf-8")
    files, index = table.files_at(offset_of(0)).statistics(order_by("k"))
    assert (files[0].row_count, files[0].lower, files[0].upper) == (3, (), ())
    assert index.nth(files, EVERYTHING, 1) == (1,)


def test_files_are_those_of_the_version(orders):
    orders.add(1, 2)
    orders.add(3)
    orders.change([1], amount=5)
    assert [len(orders.table.files_at(offset_of(version)).statistics(order_by("id"))[0]) for version in (0, 1, 2)] == [
        1,
        2,
        1,
    ]
    assert [orders.table.row_count(offset_of(version)) for version in (0, 1, 2)] == [2, 3, 3]
    files, _ = orders.table.files_at(offset_of(2)).statistics(order_by("id"))
    assert files[0].size == (Path(orders.path) / files[0].path).stat().st_size


def test_files_of_the_version_that_was_described_need_no_other_look_at_the_log(orders):
    orders.add(1, 2)
    table = DeltaSource(orders.path)
    table.at()
    shutil.rmtree(Path(orders.path, "_delta_log"))
    assert table.row_count(offset_of(0)) == 2
    assert len(table.files_at(offset_of(0)).statistics(order_by("id"))[0]) == 1


def test_the_newest_version_is_told_without_reading_what_is_in_the_log(orders):
    orders.add(1)
    orders.add(2)
    for version in (0, 1):
        commit_file(orders.path, version).write_text("", encoding="utf-8")
    assert DeltaSource(orders.path).latest().number == 1


def test_a_table_that_was_made_anew_is_described_anew(orders):
    """I6: what was read of the one before is forgotten."""
    orders.add(1, 2)
    table = DeltaSource(orders.path)
    before = table.at()
    shutil.rmtree(orders.path)
    orders.add(1)
    assert table.at().table_id != before.table_id
    assert table.row_count(offset_of(0)) == 1


def test_an_empty_table_has_no_files(orders):
    orders.add()
    assert orders.table.row_count(offset_of(0)) == 0
    assert [file for file in orders.table.files_at(offset_of(0)).statistics(order_by("id"))[0] if file.row_count] == []


NAMES = [
    "order id",
    "a.b",
    'quo"te',
    "it's",
    "back`tick",
    "ünï",
    "UPPER",
    "a,b;c",
    "{x}",
    "a%b",
    "a/b",
    "a=b",
    "select",
]


@pytest.mark.parametrize("partitioned", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_a_key_column_may_have_any_name(tmp_path, name, partitioned):
    table = write_table(
        tmp_path / "t",
        {name: pa.array([3, 1, 2, None]), "other": pa.array([0, 0, 0, 0])},
        partition_by=[name] if partitioned else None,
    )
    order = order_by(name)
    files, index = table.files_at(offset_of(0)).statistics(order)
    assert [index.nth(files, EVERYTHING, n) for n in range(1, 5)] == [(None,), (1,), (2,), (3,)]
    lowers = sorted((file.lower for file in files), key=str)
    assert lowers == ([(1,), (2,), (3,), (None,)] if partitioned else [(None,)])


def test_a_column_named_like_anothers_path_is_not_mixed_up_with_it(tmp_path):
    table = write_table(
        tmp_path / "t", {"a": pa.array([{"b": 1}, {"b": 2}]), "a.b": pa.array([30, 40]), "b": pa.array([5, 6])}
    )
    files, index = table.files_at(offset_of(0)).statistics(order_by("b"))
    assert (files[0].lower, index.nth(files, EVERYTHING, 2)) == ((5,), (6,))


PARTITION_VALUES = {
    "string": ["a b", "a/b", "a%b", "%20", "a=b", "ünï", "'", '"', "`", "a:b", "#", "?", "+", " ", "x\ny", "\\", "*"],
    "integer": [-5, 0, 7],
    "long": [-(2**63), 2**63 - 1],
    "date": [dt.date(1, 1, 1), dt.date(9999, 12, 31)],
    "timestamp": [dt.datetime(2024, 1, 1, 0, 0, 0, 999999, dt.UTC), dt.datetime(1969, 12, 31, 23, 0, tzinfo=dt.UTC)],
    "timestamp_ntz": [dt.datetime(2024, 3, 31, 2, 30, 0, 1)],
    "boolean": [True, False],
    "decimal(20,2)": [Decimal("123456789012345678.99")],
}


@pytest.mark.parametrize("kind", PARTITION_VALUES)
def test_a_partition_column_may_be_the_key(tmp_path, kind):
    order = order_of(kind)
    values = [*PARTITION_VALUES[kind], None]
    table = write_table(
        tmp_path / "t",
        {"k1": pa.array(values, arrow_type(order.fields[0])), "other": pa.array(range(len(values)))},
        partition_by=["k1"],
    )
    assert_bounds_hold_all_keys(table, order, [[value] for value in values])
    files, _ = table.files_at(offset_of(0)).statistics(order)
    assert all(file.lower == file.upper for file in files), "a partition's value is exact"


def test_a_partition_column_may_be_part_of_the_key(tmp_path):
    table = write_table(
        tmp_path / "t",
        {"region": pa.array(["b", "a", None, "a"]), "id": pa.array([1, 2, 3, 4])},
        partition_by=["region"],
    )
    order = KeyOrder((KeyField(name="id", type="long", descending=True), KeyField(name="region", type="string")))
    files, index = table.files_at(offset_of(0)).statistics(order)
    assert [index.nth(files, EVERYTHING, n) for n in (1, 2, 3, 4)] == [(4, "a"), (3, None), (2, "a"), (1, "b")]
    assert index.nth(files, KeyRange((3, None), None), 1) == (2, "a")
    assert sorted(str((file.lower, file.upper)) for file in files) == [
        "((1, 'b'), (1, 'b'))",
        "((3, None), (3, None))",
        "((4, 'a'), (2, 'a'))",
    ]


def test_a_shallow_clone_is_refused(tmp_path, orders):
    """I6: its data files belong to somebody else, who may vacuum them."""
    orders.add(1)
    file = commit_file(orders.path, 0)
    actions = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    for action in actions:
        if "add" in action:
            action["add"]["path"] = f"file:///elsewhere/{action['add']['path']}"
    file.write_text("\n".join(map(json.dumps, actions)), encoding="utf-8")
    with pytest.raises(UpstreamError, match="shallow clone"):
        orders.table.files_at(offset_of(0)).statistics(order_by("id"))


# --- schemas --------------------------------------------------------------------------------------


def mapped(path, *columns):
    """Make a table whose columns have other names in its files, which delta-rs reads and does not write."""
    fields = [pa.field(name, kind, metadata={"stored": stored}) for name, kind, stored in columns]
    DeltaTable.create(str(path), pa.schema(fields))
    log = commit_file(path, 0)
    written = log.read_text(encoding="utf-8").replace(r"\"stored\"", r"\"delta.columnMapping.physicalName\"")
    log.write_text(written, encoding="utf-8")
    return DeltaSource(str(path))


def test_a_column_that_was_renamed_is_known_by_its_name_in_the_files(tmp_path):
    table = mapped(tmp_path / "t", ("order", pa.int64(), "col-1"), ("id", pa.int64(), "col-2"))
    assert table.at().physical_names == {"order": "col-1", "id": "col-2"}
    used = UpstreamColumn(name="id", type="long", physical_name="col-1")
    table.require_used_columns(offset_of(-1), offset_of(0), ResolvedUpstream(table_id="t", columns=(used,)))
    gone = UpstreamColumn(name="id", type="long", physical_name="col-3")
    with pytest.raises(UpstreamSchemaChangedError, match="'col-3' is gone"):
        table.require_used_columns(offset_of(-1), offset_of(0), ResolvedUpstream(table_id="t", columns=(gone,)))


def test_a_part_of_a_column_that_was_made_anew_is_another_type(tmp_path):
    def typed(stored):
        part = pa.field("street", pa.string(), metadata={"stored": stored})
        return mapped(tmp_path / stored, ("address", pa.struct([part]), "col-1")).at().types["address"]

    assert typed("col-2") != typed("col-3")


def test_versions_in_which_a_column_had_another_type_are_refused(tmp_path):
    """A type that went and came back: the changes in between would be read as something else."""
    path = str(tmp_path / "orders")
    for ids in ([1], ["one"], [1]):
        write_deltalake(path, pa.table({"id": ids}), mode="overwrite", schema_mode="overwrite")
    resolved = ResolvedUpstream(table_id="t", columns=(UpstreamColumn(name="id", type="long"),))
    DeltaSource(path).require_used_columns(offset_of(1), offset_of(2), resolved)
    with pytest.raises(UpstreamSchemaChangedError, match="version 1 of .*column 'id' was long and is string"):
        DeltaSource(path).require_used_columns(offset_of(0), offset_of(2), resolved)


def test_of_columns_that_a_job_does_not_use_a_window_may_have_any(tmp_path):
    path = str(tmp_path / "orders")
    for other in ({"a": [1]}, {"a": ["x"]}, {}, {"a": [1]}):
        write_deltalake(path, pa.table({"id": [1], **other}), mode="overwrite", schema_mode="overwrite")
    resolved = ResolvedUpstream(table_id="t", columns=(UpstreamColumn(name="id", type="long"),))
    DeltaSource(path).require_used_columns(offset_of(0), offset_of(3), resolved)


@pytest.mark.parametrize("from_version", [0, 1])
def test_changes_from_before_a_used_column_was_a_partition_column_are_refused(tmp_path, from_version):
    """Delta would read a null of each of them."""
    path = str(tmp_path / "orders")
    for _ in range(3):
        write_deltalake(path, pa.table({"id": [1], "day": [1]}), mode="append")
    written = commit_file(path, 0).read_text(encoding="utf-8").splitlines()
    metadata = next(line for line in written if line.startswith('{"metaData"'))
    for version in (1, 2):
        with commit_file(path, version).open("a", encoding="utf-8") as commit:
            commit.write("\n" + metadata.replace('"partitionColumns":[]', '"partitionColumns":["day"]') + "\n")
    used = ResolvedUpstream(table_id="t", columns=(UpstreamColumn(name="day", type="long"),))
    table = DeltaSource(path)
    table.require_used_columns(offset_of(from_version), offset_of(2), ResolvedUpstream(table_id="t", columns=()))
    if from_version:
        table.require_used_columns(offset_of(from_version), offset_of(2), used)
        return
    with pytest.raises(UpstreamSchemaChangedError, match="partitioned by day since version 1"):
        table.require_used_columns(offset_of(from_version), offset_of(2), used)


def test_a_comment_on_a_part_of_a_column_changes_no_type(tmp_path):
    def typed(comment, *, nullable=True, name="street"):
        part = pa.field(name, pa.string(), nullable=nullable, metadata={"comment": comment})
        path = tmp_path / f"{comment} {nullable} {name}"
        schema = pa.schema([("id", pa.int64()), ("address", pa.list_(pa.struct([part])))])
        DeltaTable.create(str(path), schema, mode="ignore")
        return DeltaSource(str(path)).at().types["address"]

    assert typed("x") == typed("y") == typed("z", nullable=False)
    assert typed("x") != typed("x", name="town")


def test_a_constraint_on_the_values_of_a_map_changes_no_type(tmp_path):
    def typed(*, nullable):
        path = tmp_path / str(nullable)
        value = pa.field("value", pa.int64(), nullable=nullable)
        DeltaTable.create(str(path), pa.schema([("amounts", pa.map_(pa.string(), value))]))
        return DeltaSource(str(path)).at().types["amounts"]

    assert typed(nullable=True) == typed(nullable=False)


def test_a_key_column_has_its_type_as_of_the_version_and_its_direction_of_the_job(orders):
    orders.add(1)
    key = [KeyColumn(column="id", descending=True), KeyColumn(column="status")]
    assert orders.table.at().key_order(key) == KeyOrder(
        (KeyField(name="id", type="long", descending=True), KeyField(name="status", type="string"))
    )


def test_the_files_of_a_version_are_its_own_also_where_another_one_was_described(orders):
    orders.add(1)
    orders.add(2, 3)
    table = orders.table
    assert table.at().offset == offset_of(1)
    assert (table.row_count(offset_of(0)), table.row_count(offset_of(1))) == (1, 3)


def test_a_file_of_nothing_but_null_keys_begins_and_ends_with_them(tmp_path):
    table = write_table(tmp_path / "t", {"id": pa.array([None, None], pa.int64())})
    ((file,), _) = table.files_at(offset_of(0)).statistics(order_by("id"))
    assert (file.lower, file.upper) == ((None,), (None,))


def test_rows_of_a_file_of_which_the_log_says_nothing_are_counted_in_the_file(orders):
    orders.add(1, 2)
    orders.add(3, 4, 5)
    log = commit_file(orders.path, 0)
    actions = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    for action in actions:
        action.get("add", {}).pop("stats", None)
    log.write_text("\n".join(map(json.dumps, actions)), encoding="utf-8")
    assert orders.table.row_count(offset_of(1)) == 5


@pytest.mark.parametrize("kind", ["timestamp", "timestamp_ntz"])
def test_a_files_last_instant_is_no_later_than_its_bound(tmp_path, kind):
    """Statistics keep milliseconds, and an instant may lie behind them."""
    last = dt.datetime(2024, 2, 29, 0, 0, 0, 1999, dt.UTC if kind == "timestamp" else None)
    order = order_of(kind)
    table = write_table(tmp_path / "t", {"k1": pa.array([last], arrow_type(order.fields[0]))})
    ((file,), _) = table.files_at(offset_of(0)).statistics(order)
    assert file.lower <= (last,) <= file.upper


def test_a_key_beyond_the_years_of_python_is_no_bound(tmp_path):
    """Spark's years go further; ``infinity`` of other databases arrives as one of them."""
    days = pa.array([0, 2_932_897, None], pa.int32()).cast(pa.date32())
    order = KeyOrder((KeyField(name="day", type="date"),))
    table = write_table(tmp_path / "plain", {"day": days})
    ((file,), index) = table.files_at(offset_of(0)).statistics(order)
    assert (file.lower, file.upper) == ((None,), ())
    assert index.nth([file], EVERYTHING, 2) == (dt.date(1970, 1, 1),)
    with pytest.raises(
        UpstreamError, match="end at a key whose column 'day' has a value that cannot be stored as a position"
    ):
        index.nth([file], EVERYTHING, 3)


# --- the change feed ------------------------------------------------------------------------------


def test_the_feed_tells_since_when_versions_are_unread(every_minute):
    feed = every_minute.table.change_feed(offset_of(2))
    assert (feed.latest.number, feed.kept_for) == (5, dt.timedelta(days=7))
    assert feed.unread_since == feed.needed_since == at_minute(3)
    assert feed.needed == offset_of(3)


@pytest.mark.parametrize("read_up_to", [5, 9, None])
def test_a_feed_of_which_nothing_is_needed(every_minute, read_up_to):
    feed = every_minute.table.change_feed(None if read_up_to is None else offset_of(read_up_to))
    assert feed.latest.number == 5
    assert (feed.unread_since, feed.needed and feed.needed.number, feed.needed_since) == (None, None, None)


def test_changes_of_older_versions_may_be_needed_than_the_next_epoch_goes_on_from(every_minute):
    feed = every_minute.table.change_feed(offset_of(4), needed_after=offset_of(1))
    assert feed.unread_since == at_minute(5)
    assert (feed.needed and feed.needed.number, feed.needed_since) == (2, at_minute(2))


def test_a_version_without_changes_is_unread_but_not_needed(orders):
    orders.add(1)
    orders.add(2)
    orders.compact()
    orders.add(3)
    for version in range(4):
        committed_at(orders.path, version, at_minute(version))
    feed = orders.table.change_feed(offset_of(1))
    assert feed.unread_since == at_minute(2)
    assert (feed.needed and feed.needed.number, feed.needed_since) == (3, at_minute(3))


def test_changes_whose_commit_was_cleaned_up_are_needed_and_nobody_knows_since_when(cleaned):
    feed = cleaned.change_feed(offset_of(2))
    assert (feed.latest, feed.needed) == (offset_of(9), offset_of(3))
    assert (feed.unread_since, feed.needed_since) == (None, None)


def test_the_feed_knows_the_tables_retention(orders):
    orders.add(1)
    DeltaTable(orders.path).alter.set_table_properties({"delta.deletedFileRetentionDuration": "interval 36 hours"})
    assert orders.table.change_feed(None).kept_for == dt.timedelta(hours=36)
