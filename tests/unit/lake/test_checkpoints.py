"""Which checkpoint a version is read from."""

from __future__ import annotations

import pyarrow.fs as arrow_fs
import pytest

from airflow_backfill_provider.lake.checkpoints import newest_checkpoint

SINGLE = "{:020d}.checkpoint.parquet"
PART = "{:020d}.checkpoint.{:010d}.{:010d}.parquet"
NAMED = "{:020d}.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.{}"


@pytest.mark.parametrize(
    ("names", "version", "found"),
    [
        ([], 5, (-1, [])),
        ([SINGLE.format(3)], 2, (-1, [])),
        ([SINGLE.format(3), SINGLE.format(10)], 9, (3, [SINGLE.format(3)])),
        ([SINGLE.format(3), SINGLE.format(10)], 10, (10, [SINGLE.format(10)])),
        ([PART.format(7, 1, 2), PART.format(7, 2, 2)], 8, (7, [PART.format(7, 1, 2), PART.format(7, 2, 2)])),
        # A writer died before it wrote the second part.
        ([SINGLE.format(3), PART.format(7, 1, 2)], 8, (3, [SINGLE.format(3)])),
        ([NAMED.format(4, "json")], 8, (4, [NAMED.format(4, "json")])),
        ([NAMED.format(4, "parquet"), "00000000000000000009.json"], 8, (4, [NAMED.format(4, "parquet")])),
    ],
)
def test_the_newest_whole_checkpoint_that_is_not_after_the_version(tmp_path, names, version, found):
    folder = tmp_path / "_delta_log"
    folder.mkdir()
    for name in names:
        (folder / name).touch()
    storage = arrow_fs.SubTreeFileSystem(str(tmp_path), arrow_fs.LocalFileSystem())
    at, paths = newest_checkpoint(storage, version)
    assert (at, sorted(paths)) == (found[0], [f"_delta_log/{name}" for name in found[1]])
