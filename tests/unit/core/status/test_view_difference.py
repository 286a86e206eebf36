"""The difference of two views, as a value."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.core.status.view_difference import ComparedSide, ComparedVersions, RowDifference

SIDE = ComparedSide(view_version=3, epoch=2, upstreams={"o": Offset(5), "c": Offset(7)})


@pytest.mark.parametrize(
    ("changes", "differs"),
    [
        ({}, False),
        ({"added": 1}, True),
        ({"removed": 1}, True),
        ({"changed": 1}, True),
        ({"columns_added": ("a",)}, True),
        ({"columns_removed": ("a",)}, True),
        ({"columns_retyped": ("a",)}, True),
        ({"has_key": False}, False),
    ],
)
def test_views_differ_in_rows_or_in_columns(changes, differs):
    assert RowDifference(rows_before=3, rows_after=3, **changes).differs is differs


@pytest.mark.parametrize(
    ("served", "at_one_point"),
    [
        (None, True),
        (SIDE, True),
        (ComparedSide(view_version=9, epoch=8, upstreams={"o": Offset(5), "c": Offset(8)}), False),
    ],
)
def test_both_sides_are_at_one_point_if_all_their_upstreams_are(served, at_one_point):
    assert ComparedVersions(served=served, waiting=SIDE).at_one_point is at_one_point
