"""The files of a folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from airflow_backfill_provider.core.errors import UpstreamNotFoundError
from airflow_backfill_provider.sources.files.listing import Folder


def test_files_are_listed_in_the_order_of_their_times_without_hidden_ones(tmp_path: Path):
    for number, name in enumerate(("b", "a", "deep/er/c", "_t/d", ".e", "_f", "deep/.g/h")):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("x" * number)
        os.utime(file, (1000 + number // 2, 1000 + number // 2))
    folder = Folder(str(tmp_path), {})
    assert [(one.path, one.size, one.modified) for one in folder.files()] == [
        ("a", 1, 1_000_000),
        ("b", 0, 1_000_000),
        ("deep/er/c", 2, 1_001_000),
    ]
    assert folder.listed(["nothing", "a"]) == [None, folder.files()[0]]


@pytest.mark.parametrize(
    "name",
    [
        "x.json._COPYING_",
        "x.json.tmp",
        "x.part",
        "x.json.filepart",
        "x.inprogress",
        "x.CRDOWNLOAD",
        "x.json~",
        "a.tmp/x",
    ],
)
def test_a_file_is_no_file_before_it_is_whole(tmp_path: Path, name: str):
    """I6: common programs write under another name first."""
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("{}")
    (tmp_path / "x.json.tmp.json").write_text("{}")
    assert [one.path for one in Folder(str(tmp_path), {}).files()] == ["x.json.tmp.json"]


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path):
    with pytest.raises(UpstreamNotFoundError, match="create the folder first"):
        Folder(str(tmp_path / "none"), {}).files()
