"""How the file log follows a folder in which files are corrected and moved; without a JVM."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from airflow_backfill_provider.core.errors import UpstreamError
from airflow_backfill_provider.core.scan.splits import SplitRange
from airflow_backfill_provider.sources.files.definition import FilesUpstream
from airflow_backfill_provider.sources.files.source import FilesSource
from airflow_backfill_provider.sources.split_offsets import ends_of


class Folder:
    """A folder of files, and the source that reads it."""

    def __init__(self, path: Path) -> None:
        self.path = path / "in"
        self.path.mkdir()
        fields = {"path": str(self.path), "format": "json", "schema": "id INT, day DATE"}
        self.source = FilesSource(FilesUpstream(**fields).for_job("job", str(path / "state")))
        self.time = 1000

    def put(self, name: str, *ids: object) -> None:
        """Put a file there; each has another time."""
        file = self.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("".join(json.dumps({"id": number}) + "\n" for number in ids))
        self.time += 1
        os.utime(file, (self.time, self.time))

    def move(self, name: str, to: str) -> None:
        (self.path / to).parent.mkdir(parents=True, exist_ok=True)
        (self.path / name).rename(self.path / to)

    def look(self, *, read: int) -> dict[str, SplitRange]:
        """Return the places of the files after a request, when so many rows of each split were read."""
        self.source.note_read(dict.fromkeys(range(8), read))
        self.source.refresh()
        files = self.source.placed.files
        return {one.file.path: SplitRange(one.split, one.begin, one.end) for one in files}

    @property
    def rows(self) -> int:
        return self.source.row_count(self.source.latest())


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """A folder with two files, of which the log knows."""
    found = Folder(tmp_path)
    found.put("a", 1, 2, 3)
    found.put("b", 4, 5)
    found.source.refresh()
    return found


def test_a_file_may_be_corrected_until_a_row_of_it_is_read(folder: Folder):
    """I2: its old places stay empty."""
    folder.put("a", 1, 3)
    found = folder.look(read=0)
    assert found == {"b": SplitRange(1, 0, 2), "a": SplitRange(2, 0, 2)}
    assert ends_of(folder.source.latest())[0] == 3
    assert folder.rows == 4
    assert [folder.source.splits.most_rows(SplitRange(split, 0, 3)) for split in range(3)] == [0, 3, 3]
    assert len(folder.source.parts([SplitRange(0, 0, 3), SplitRange(2, 0, 2)])) == 1
    folder.put("b", 4)
    with pytest.raises(UpstreamError, match="file b of .* rows of it may be in the view"):
        folder.look(read=1)


def test_nothing_may_be_corrected_if_nobody_knows_what_was_read(folder: Folder):
    """I6."""
    folder.put("a", 1)
    with pytest.raises(UpstreamError, match="rows of it may be in the view"):
        folder.source.refresh()


def test_a_file_may_be_corrected_several_times(folder: Folder):
    for number in range(3):
        folder.put("a", *range(number))
        found = folder.look(read=0)
        assert found["a"].size == number
    assert folder.rows == 4
    assert folder.look(read=0) == found, "nothing changed"


def test_a_file_that_was_read_keeps_its_places_where_it_is_moved(folder: Folder):
    before = folder.look(read=9)
    folder.move("a", "done/a")
    after = folder.look(read=9)
    assert after == {"b": before["b"], "done/a": before["a"]}
    assert not folder.source.gone_among(folder.source.parts_up_to(folder.source.latest()))
    folder.move("done/a", "a")
    assert folder.look(read=9) == before


def test_a_file_that_was_not_read_is_read_where_it_is_moved(folder: Folder):
    folder.move("a", "day=2024-01-01/a")
    found = folder.look(read=0)
    assert found == {"b": SplitRange(1, 0, 2), "day=2024-01-01/a": SplitRange(2, 0, 3)}
    folder.move("day=2024-01-01/a", "day=2024-01-02/a")
    with pytest.raises(UpstreamError, match="a folder of other values"):
        folder.look(read=9)
