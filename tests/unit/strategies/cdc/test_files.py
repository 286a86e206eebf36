"""What was read ahead, as the log of its table says: stamps, files, and how far it reaches."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, write_deltalake

from airflow_backfill_provider.core.errors import DataFileError, StateError
from airflow_backfill_provider.core.scan.keys import EVERYTHING, KeyRange
from airflow_backfill_provider.core.scan.offset import BEGINNING, Offset
from airflow_backfill_provider.strategies.cdc.files import ReadAheadFiles, Reading
from tests.builders import commit_file, order_of

ORDER = order_of("long", ("string", True))

READINGS = [
    Reading(epoch=2, covered=KeyRange(None, (5, "b")), changes_after=Offset(100), server_run="1"),
    Reading(epoch=3, covered=KeyRange((5, "b"), (9, "a")), changes_after=Offset(90), server_run="2"),
    Reading(epoch=7, covered=KeyRange((9, "a"), None), changes_after=Offset(2**63), server_run="2"),
]


@pytest.fixture
def files(lake):
    return ReadAheadFiles(str(lake / "read_ahead"))


def append(files, stamp, *keys):
    """Commit rows with these keys, and a stamp as the writer on Spark makes it."""
    rows = pa.table(
        {"k1": pa.array([k for k, _ in keys], pa.int64()), "k2": pa.array([k for _, k in keys], pa.string())}
    )
    metadata = None if stamp is None else {"userMetadata": stamp if isinstance(stamp, str) else json.dumps(stamp)}
    write_deltalake(files.path, rows, mode="append", commit_properties=CommitProperties(custom_metadata=metadata))


def read_ahead(files, reading, *keys):
    append(files, {**reading.facts(ORDER), "event": "epoch", "epoch": reading.epoch, "digest": "d"}, *keys)


def readings(files, **limits):
    """Return the readings as they were before they were committed."""
    return [
        Reading(
            epoch=found.epoch, covered=found.covered, changes_after=found.changes_after, server_run=found.server_run
        )
        for found in files.readings(ORDER, **limits)
    ]


def create(files):
    append(files, {"event": "create", "incarnation": "a1"})


@pytest.mark.parametrize("reading", READINGS)
def test_the_facts_of_a_reading_are_json(reading):
    facts = reading.facts(ORDER)
    assert json.loads(json.dumps(facts))["changes_after"] == reading.changes_after.root
    assert set(facts) == {"after", "up_to", "changes_after", "server_run"}


@pytest.mark.parametrize("changes_after", [Offset(5), BEGINNING, Offset((5, "a"))])
@pytest.mark.parametrize(
    "covered",
    [EVERYTHING, KeyRange((-1,), (2**62, "ü'\"\\\n")), KeyRange(None, (5, "")), KeyRange((5,), None)],
    ids=str,
)
def test_a_reading_is_read_back_from_its_commit(files, covered, changes_after):
    reading = Reading(epoch=3, covered=covered, changes_after=changes_after, server_run="")
    read_ahead(files, reading)
    assert readings(files) == [reading]


def test_readings_come_in_order_and_other_commits_are_none(files):
    create(files)
    read_ahead(files, READINGS[0], (1, "a"))
    append(files, None)
    append(files, "no stamp")
    append(files, '["changes_after"]')
    append(files, {"event": "given_up", "epoch": 3, "digest": "d"})
    for reading in READINGS[1:]:
        read_ahead(files, reading)
    assert readings(files) == READINGS


def again(epoch, after, up_to):
    return Reading(epoch=epoch, covered=KeyRange(after, up_to), changes_after=Offset(epoch), server_run="3")


@pytest.mark.parametrize(
    ("later", "expected"),
    [
        ([again(8, (9, "a"), (20, "z"))], [2, 3, 8]),
        ([again(8, (9, "a"), None), again(9, (9, "a"), None)], [2, 3, 9]),
        ([again(8, (5, "b"), (7, "z")), again(9, (7, "z"), None)], [2, 8, 9]),
        ([again(8, None, (1, "z"))], [8]),
    ],
)
def test_what_was_read_again_counts_once(files, later, expected):
    """The server crashed while it was read."""
    for reading in [*READINGS, *later]:
        read_ahead(files, reading)
    assert [reading.epoch for reading in files.readings(ORDER)] == expected
    assert readings(files, before=8) == READINGS


@pytest.mark.parametrize(("before", "count"), [(2, 0), (3, 1), (4, 2), (7, 2), (8, 3), (None, 3)])
def test_what_an_epoch_itself_and_later_ones_read_ahead_can_be_left_out(files, before, count):
    for reading in READINGS:
        read_ahead(files, reading)
    assert readings(files, before=before) == READINGS[:count]


def test_a_table_exists_once_it_is_created(files):
    assert not files.exists()
    create(files)
    assert files.exists()
    assert readings(files) == []


def test_files_have_bounds_and_exact_keys(files):
    create(files)
    read_ahead(files, READINGS[0], (1, "b"), (1, "a"), (5, "b"))
    read_ahead(files, READINGS[1], (7, "z"))
    found, keys = files.statistics(ORDER, files.readings(ORDER))
    assert sorted((file.row_count, file.lower, file.upper) for file in found if file.row_count) == [
        (1, (7, "z"), (7, "z")),
        (3, (1, "b"), (5, "a")),
    ]
    assert [keys.nth(found, EVERYTHING, n) for n in range(1, 6)] == [(1, "b"), (1, "a"), (5, "b"), (7, "z"), None]


def test_rows_that_were_read_again_have_no_files(files):
    """I4: a server that dies leaves rows that do not count, and each death leaves more of them."""
    create(files)
    stale = [again(epoch, None, (9, "a")) for epoch in (1, 2)]
    for reading in [*stale, again(3, None, (7, "a"))]:
        read_ahead(files, reading, (1, "b"), (reading.epoch, "c"))
    readings = files.readings(ORDER)
    assert [reading.epoch for reading in readings] == [3]
    found, keys = files.statistics(ORDER, readings)
    assert [file.row_count for file in found] == [2]
    assert [keys.nth(found, EVERYTHING, n) for n in range(1, 4)] == [(1, "b"), (3, "c"), None]
    assert files.statistics(ORDER, [])[0] == []


def test_a_dropped_table_leaves_nothing(files):
    create(files)
    files.drop()
    assert not files.exists()
    assert not Path(files.path).exists()
    files.drop()


@pytest.mark.parametrize(
    "stamp",
    [
        {"changes_after": 5, "epoch": 1, "after": None},
        {"changes_after": 5, "after": None, "up_to": None},
        {"changes_after": 5, "epoch": "x", "after": None, "up_to": None},
        {"changes_after": 5.5, "epoch": 1, "after": None, "up_to": None},
        {"changes_after": 5, "epoch": 1, "after": ["x"], "up_to": None},
        {"changes_after": 5, "epoch": 1, "after": [], "up_to": None},
        {"changes_after": 5, "epoch": 1, "after": "5", "up_to": None},
        {"changes_after": 5, "epoch": 1, "after": {"k1": "5"}, "up_to": None},
    ],
    ids=str,
)
def test_a_damaged_stamp_is_an_error_of_the_state(files, stamp):
    """I6."""
    append(files, stamp)
    with pytest.raises(StateError):
        files.readings(ORDER)


def test_a_damaged_log_is_an_error_of_the_state_that_says_what_to_do(files):
    create(files)
    commit_file(files.path, 0).write_text("{", encoding="utf-8")
    with pytest.raises(StateError) as refused:
        files.readings(ORDER)
    assert f"the rows that were read ahead, at {files.path}, are damaged" in str(refused.value)
    assert "restore them, or rebuild the job" in str(refused.value)
    with pytest.raises(StateError, match="are damaged"):
        files.statistics(ORDER, [])


def test_a_data_file_that_is_gone_is_named(files):
    create(files)
    read_ahead(files, READINGS[0], (1, "b"))
    for file in Path(files.path).glob("*.parquet"):
        file.unlink()
    found, keys = files.statistics(ORDER, files.readings(ORDER))
    with pytest.raises(DataFileError, match="is gone"):
        keys.nth(found, KeyRange((0,), None), 1)
