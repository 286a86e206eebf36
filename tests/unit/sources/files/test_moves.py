"""Whether a new file is one that the job has under another path."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.errors import UpstreamError
from airflow_backfill_provider.sources.files.details import FileDetails
from airflow_backfill_provider.sources.files.moves import moved_from
from airflow_backfill_provider.sources.shared.file_log.entries import FoundFile, PlacedFile


def a_file(path: str, *, modified: int = 1, digest: str = "d", rows: int = 2, **partitions: str) -> FoundFile:
    details = FileDetails(digest=digest, partitions=partitions).to_text()
    return FoundFile(path=path, size=9, modified=modified, rows=rows, added_at=modified, details=details)


def moved(found: FoundFile, gone: FoundFile, *, is_unread: bool = False) -> bool:
    placed = PlacedFile(number=0, split=0, begin=0, file=gone)
    return moved_from(found, [placed], lambda _: is_unread, "/landing") is not None


def test_a_file_with_the_content_and_the_time_of_one_that_is_gone_was_moved():
    assert moved(a_file("done/a"), a_file("a"))
    assert moved(a_file("done/other"), a_file("a"))


def test_the_same_rows_may_be_written_again():
    """I6: they are not taken for the old ones."""
    assert not moved(a_file("b", modified=2), a_file("a"))
    assert not moved(a_file("done/a", digest="e"), a_file("a"))
    assert not moved(a_file("day=2/a", modified=2, day="2"), a_file("day=1/a", day="1"))
    assert not moved(a_file("done/a", rows=0), a_file("a", rows=0))


def test_a_copy_under_the_same_name_is_refused_if_the_rows_were_read():
    with pytest.raises(
        UpstreamError, match=r"file done/a of /landing has the name and the content of a, .*move it out"
    ):
        moved(a_file("done/a", modified=2), a_file("a"))
    assert moved(a_file("done/a", modified=2), a_file("a"), is_unread=True)


def test_a_file_that_was_read_keeps_the_values_of_its_folders():
    with pytest.raises(UpstreamError, match="was moved to day=2/a, a folder of other values"):
        moved(a_file("day=2/a", day="2"), a_file("day=1/a", day="1"))
    assert moved(a_file("day=2/a", day="2"), a_file("day=1/a", day="1"), is_unread=True)
