"""Which checkpoints a log has, and from which one a version is read."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.lake.log.checkpoints import checkpoints_in
from airflow_backfill_provider.lake.log.delta_log import LogFiles

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
def test_the_newest_whole_checkpoint_that_is_not_after_the_version(names, version, found):
    checkpoints = checkpoints_in(f"_delta_log/{name}" for name in names)
    at, paths = LogFiles({}, checkpoints).newest_checkpoint(version)
    assert (at, list(paths)) == (found[0], [f"_delta_log/{name}" for name in found[1]])


def test_a_version_with_several_checkpoints_is_read_from_one_of_them():
    one, other = NAMED.format(4, "json"), PART.format(4, 1, 1)
    assert checkpoints_in([one, other])[4] in ([one], [other])
