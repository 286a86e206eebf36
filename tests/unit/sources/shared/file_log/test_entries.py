"""Places of the rows of files."""

from __future__ import annotations

import datetime as dt

from airflow_backfill_provider.core.scan.splits import SplitRange
from airflow_backfill_provider.sources.shared.file_log.entries import (
    SPLIT_COUNT,
    FoundFile,
    PlacedFiles,
    instant_of,
    merged,
)


def found(number: int, rows: int) -> FoundFile:
    return FoundFile(path=f"f{number}", size=rows, modified=number, rows=rows, added_at=number * 1000)


def placed(*rows: int) -> PlacedFiles:
    return PlacedFiles(PlacedFiles().and_then([found(number, count) for number, count in enumerate(rows)]))


def test_files_go_to_the_split_with_the_fewest_rows_and_rows_get_the_next_places():
    files = placed(*[10] * SPLIT_COUNT, 3, 5, 1)
    last = [(one.number, one.split, one.begin, one.end) for one in files.files[-3:]]
    assert last == [(8, 0, 10, 13), (9, 1, 10, 15), (10, 2, 10, 11)]
    assert files.ends == {0: 13, 1: 15, 2: 11, 3: 10, 4: 10, 5: 10, 6: 10, 7: 10}


def test_the_same_files_get_the_same_places_in_one_addition_or_in_several():
    """I2: whichever process adds them."""
    at_once = placed(4, 7, 0, 2, 9, 1, 1, 3, 5, 6, 8)
    one_by_one = PlacedFiles()
    for placed_file in at_once.files:
        one_by_one = PlacedFiles([*one_by_one.files, *one_by_one.and_then([placed_file.file])])
    assert list(one_by_one.files) == list(at_once.files)


def test_parts_are_what_files_have_of_some_places():
    files = placed(*[10] * SPLIT_COUNT, 10)
    parts = files.parts([SplitRange(0, 8, 12), SplitRange(3, 0, 10), SplitRange(4, 5, 5)])
    assert [(part.placed.file.path, part.begin, part.end) for part in parts] == [
        ("f0", 8, 10),
        ("f3", 0, 10),
        ("f8", 10, 12),
    ]
    assert merged(parts) == [SplitRange(0, 8, 12), SplitRange(3, 0, 10)]


def test_a_file_without_rows_has_no_part():
    assert placed(0).parts([SplitRange(0, 0, 10)]) == []


def test_the_ends_at_an_instant_are_those_before_the_first_later_file():
    files = placed(5, 6, 7)
    assert files.ends_at(instant_of(1000)) == {**dict.fromkeys(range(SPLIT_COUNT), 0), 0: 5, 1: 6}
    assert files.ends_at(instant_of(0) - dt.timedelta(seconds=1)) is None
    assert PlacedFiles().ends_at(instant_of(0)) == dict.fromkeys(range(SPLIT_COUNT), 0)
    assert files.newest_time({0: 5, 1: 1}) == instant_of(1000)
    assert files.newest_time({}) is None


def test_places_of_a_withdrawn_file_stay_empty():
    """I2: a barrier may know them."""
    files = placed(4, 3)
    first, second = files.files
    amended = PlacedFiles([first, second, first.withdrawn()])
    assert amended.files == [second]
    assert amended.ends[0] == 4
    assert amended.and_then([found(2, 5)] * SPLIT_COUNT)[-1].begin >= 3
    assert [one.begin for one in amended.and_then([found(2, 9)] * SPLIT_COUNT) if one.split == 0] == [4]
    assert amended.missing_in(SplitRange(0, 1, 9)) == 3
    assert amended.missing_in(SplitRange(1, 0, 9)) == 0
    assert amended.parts([SplitRange(0, 0, 4)]) == []


def test_the_newest_revision_of_an_entry_counts():
    files = placed(4)
    (entry,) = files.files
    moved = entry.at(found(7, 4))
    assert PlacedFiles([moved, entry]).by_path == {"f7": moved}
