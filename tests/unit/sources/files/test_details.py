"""What the path of a file says, and how the file log keeps it."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.errors import UpstreamError
from airflow_backfill_provider.sources.files.details import FileDetails, partitions_of


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("a.json", {}),
        ("year=2024/a.json", {"year": "2024"}),
        ("x/YEAR=2024/d=a%2Fb%20c/e=1/a.json", {"year": "2024", "d": "a/b c"}),
        ("d=__HIVE_DEFAULT_PARTITION__/a", {"d": None}),
        ("d=/a", {"d": ""}),
        ("d=x=y/a", {"d": "x=y"}),
        ("year/d=1.json", {}),
        ("other=1/a", {}),
    ],
)
def test_folders_have_the_values_of_columns_as_hive_writes_them(path: str, expected: dict[str, str | None]):
    assert partitions_of(path, ["id", "year", "d"], "file") == expected


def test_two_values_of_one_column_are_refused():
    with pytest.raises(UpstreamError, match="file x: two folders have different values of column d"):
        partitions_of("d=1/D=2/a", ["d"], "file x")


@pytest.mark.parametrize(
    "details",
    [
        FileDetails(),
        FileDetails(partitions={"digest": "1", "d": None}, digest="x", has_all=True, empty=("a", "b,c")),
    ],
)
def test_details_are_what_the_log_keeps(details: FileDetails):
    assert FileDetails.from_text(details.to_text()) == details
