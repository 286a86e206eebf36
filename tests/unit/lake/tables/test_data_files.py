"""
The data files of a version: what they hold, and bounds of their keys.

Some keys exist in Spark and not in Python: bytes that are no UTF-8 in strings, and years before 1 or after 9999. Each
of them works, or is refused by the column's name (I6).
"""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_backfill_provider.core.errors import DataFileError, UpstreamError
from airflow_backfill_provider.core.scan.keys import EVERYTHING, KeyField, KeyOrder
from airflow_backfill_provider.core.scan.next_chunk import choose_chunk
from airflow_backfill_provider.lake.tables.table_files import table_files
from airflow_backfill_provider.sources.delta.versions import offset_of
from tests.builders import commit_file, write_table

YEAR_10000 = 2_932_897
"""Days since 1970."""

MICROS = 86_400_000_000


def text_of(*values):
    """Return strings of these very bytes, as Spark writes them."""
    return pa.array(list(values), pa.binary()).view(pa.string())


def dates_of(*days):
    return pa.array(days, pa.int32()).view(pa.date32())


def instants_of(*days):
    return pa.array([day * MICROS for day in days], pa.int64()).view(pa.timestamp("us", "UTC"))


SOUND = {
    "string": pa.array(["a", "b", "c"]),
    "date": pa.array([dt.date(2020, 1, day) for day in (1, 2, 3)]),
    "timestamp": pa.array([dt.datetime(2020, 1, day, tzinfo=dt.UTC) for day in (1, 2, 3)], pa.timestamp("us", "UTC")),
}


def upstream_of(lake, kind, keys, bounds):
    """
    Write a table whose one file has these keys.

    :param bounds: smallest and largest key in the log's statistics; ``None`` for no statistics.
    """
    path = lake / "edges"
    table = write_table(path, {"k": SOUND[kind]})
    (file,) = path.glob("*.parquet")
    pq.write_table(pa.table({"k": keys}), file)

    def edit(add):
        stats = {"numRecords": len(keys)}
        if bounds is not None:
            stats |= {"minValues": {"k": bounds[0]}, "maxValues": {"k": bounds[1]}, "nullCount": {"k": 0}}
        return add | {"stats": json.dumps(stats), "size": file.stat().st_size}

    edit_adds(path, edit)
    return table


def edit_adds(path: Path, edit) -> None:
    """Change what the first commit says of its files."""
    file = commit_file(path, 0)
    actions = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    edited = [{"add": edit(action["add"])} if "add" in action else action for action in actions]
    file.write_text("".join(json.dumps(action) + "\n" for action in edited), encoding="utf-8")


def order_by(kind, *, descending=False):
    return KeyOrder((KeyField(name="k", type=kind, descending=descending),))


def plan(table, order, rate_limit):
    files, keys = table.files_at(offset_of(0)).statistics(order)
    return choose_chunk(files, unread=[EVERYTHING], rate_limit=rate_limit, order=order, keys=keys)


EDGES = {
    "no UTF-8": ("string", text_of(b"a", b"b", b"\xff\xfe"), None),
    "dates": ("date", dates_of(0, 1, YEAR_10000), ("1970-01-01", "+10000-01-01")),
    "dates without statistics": ("date", dates_of(0, 1, YEAR_10000), None),
    "instants": (
        "timestamp",
        instants_of(0, 1, YEAR_10000),
        ("1970-01-01T00:00:00.000Z", "+10000-01-01T00:00:00.000Z"),
    ),
    "instants without statistics": ("timestamp", instants_of(0, 1, YEAR_10000), None),
}


@pytest.fixture(params=EDGES)
def edge(request, lake):
    """A table with two ordinary keys and a later one that Python does not have, and the type of the key."""
    kind, keys, bounds = EDGES[request.param]
    return upstream_of(lake, kind, keys, bounds), kind


def test_a_chunk_that_ends_at_another_key_works(edge):
    """I1: a chunk may end at any other key."""
    table, kind = edge
    order = order_by(kind)
    (chunk,) = plan(table, order, 2).ranges
    assert order.encode(chunk.up_to) is not None
    assert plan(table, order, 3).completes
    assert plan(table, order, None).completes
    files, keys = table.files_at(offset_of(0)).statistics(order)
    assert sum(keys.count(file, EVERYTHING) for file in files) == 3
    assert sum(keys.count(file, chunk) for file in files) == 2


def test_a_chunk_that_would_end_at_such_a_key_is_refused_by_the_columns_name(edge):
    """I6: a position is written down as text, and such a key has none."""
    table, kind = edge
    with pytest.raises(
        UpstreamError, match="whose column 'k' has a value that cannot be stored as a position: .* correct the"
    ):
        plan(table, order_by(kind, descending=True), 1)


def test_statistics_of_text_that_is_no_utf8_are_refused(lake):
    """I6: the smallest key sorts before 'é', its replacement after it; skipping files by that would lose the row."""
    table = upstream_of(lake, "string", text_of(b"\x80abc", b"\xff"), ("\ufffdabc", "\ufffd"))
    with pytest.raises(
        UpstreamError,
        match=r"key column 'k' of data file .*parquet of .* has text that is not valid UTF-8.*change the column",
    ):
        table.files_at(offset_of(0)).statistics(order_by("string"))


def test_text_that_has_the_replacement_character_itself_is_text(lake):
    table = upstream_of(lake, "string", pa.array(["a", "\ufffd"]), ("a", "\ufffd"))
    files, _ = table.files_at(offset_of(0)).statistics(order_by("string"))
    assert (files[0].lower, files[0].upper) == (("a",), ("\ufffd",))


def test_statistics_that_contradict_themselves_end_no_chunk(lake):
    """I4: all keys are said to be null, so a chunk that ended at the greatest one would have no row."""
    table = write_table(lake / "said", {"k": SOUND["string"]})
    stats = {"numRecords": 3, "minValues": {"k": "a"}, "maxValues": {"k": "c"}, "nullCount": {"k": 3}}
    edit_adds(lake / "said", lambda add: add | {"stats": json.dumps(stats)})
    write_table(lake / "said", {"k": pa.array(["d", "e", "f"])})
    files, keys = table.files_at(offset_of(1)).statistics(order_by("string"))
    (covered,) = choose_chunk(files, unread=[EVERYTHING], rate_limit=3, order=order_by("string"), keys=keys).ranges
    assert covered.up_to == ("c",)


@pytest.mark.parametrize("value", ["+10000-01-01", "-0001-01-01"])
def test_a_partition_of_such_a_year_differs_from_others_and_from_null(lake, value):
    path = lake / "edges"
    table = write_table(path, {"k": SOUND["date"], "v": pa.array([1, 2, 3])}, partition_by=["k"])
    edit_adds(path, lambda add: add | {"partitionValues": {"k": value}} if "01-03" in add["path"] else add)
    order = order_by("date")
    files, keys = table.files_at(offset_of(0)).statistics(order)
    assert [(len(file.lower), len(file.upper)) for file in files].count((0, 0)) == 1
    assert [keys.read(file).column("k").null_count for file in files] == [0] * len(files)
    assert len({file.partition for file in table_files(str(path)).files}) == 3


# --- what files hold ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def two_files(tmp_path_factory):
    """Rows 1 to 3, and then 4 and null."""
    path = tmp_path_factory.mktemp("two") / "files"
    write_table(path, {"k": pa.array([3, 1, 2]), "text": pa.array(["c", "a", "b"])})
    return write_table(path, {"k": pa.array([4, None]), "text": pa.array(["d", None])})


def test_files_are_counted_and_measured_by_the_log(two_files):
    files = two_files.files_at(offset_of(1))
    assert (files.version, files.row_count(), files.live_rows().rows) == (1, 5, 5)
    assert sorted(files.rows_by_file().values()) == [(2, 2), (3, 3)]
    assert files.size() == sum(file.size for file in files.files(order_by("long"))) > 0
    assert files.hidden_rows() == {}


@pytest.mark.parametrize(
    ("descending", "bounds"), [(False, [((1,), (3,)), ((None,), (4,))]), (True, [((3,), (1,)), ((None,), (4,))])]
)
def test_nulls_come_first_in_either_direction(two_files, descending, bounds):
    found = two_files.files_at(offset_of(1)).files(order_by("long", descending=descending))
    assert sorted(((file.lower, file.upper) for file in found), key=lambda pair: pair[1] == (4,)) == bounds


def test_some_columns_of_a_file_are_read_under_their_own_names(two_files):
    files = two_files.files_at(offset_of(1))
    (second,) = [file.path for file in files.files(order_by("long")) if file.row_count == 2]
    assert files.read(second, ["text"]).to_pydict() == {"text": ["d", None]}
    assert files.read(second, ["text", "k"]).column_names == ["text", "k"]
    with pytest.raises(DataFileError, match="nowhere.parquet"):
        files.read("nowhere.parquet", ["k"])


def test_statistics_come_with_an_index_of_exact_keys(two_files):
    files, keys = two_files.files_at(offset_of(1)).statistics(order_by("long"))
    assert [keys.nth(files, EVERYTHING, n) for n in range(1, 7)] == [(None,), (1,), (2,), (3,), (4,), None]
