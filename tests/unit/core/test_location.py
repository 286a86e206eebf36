"""Locations of tables: each has one spelling, and one that two readers interpret differently is refused."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core import location
from airflow_backfill_provider.core.errors import InvalidJobError


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("/lake/orders", "/lake/orders"),
        ("/lake/orders/", "/lake/orders"),
        ("/lake//orders///", "/lake/orders"),
        ("//lake/orders", "/lake/orders"),
        ("/lake/./orders", "/lake/orders"),
        ("/lake/x/../orders", "/lake/orders"),
        ("/../../lake", "/lake"),
        ("file:///lake/orders", "/lake/orders"),
        ("FILE:/lake/orders", "/lake/orders"),
        ("s3://bucket/orders/", "s3://bucket/orders"),
        ("S3A://Bucket/Orders", "s3a://Bucket/Orders"),
        ("s3://bucket//a/./b/../c", "s3://bucket/a/c"),
        (
            "abfss://box@account.dfs.core.windows.net/orders",
            "abfss://box@account.dfs.core.windows.net/orders",
        ),
        ("/läke o'brien `x\" #1/tÄble", "/läke o'brien `x\" #1/tÄble"),
        ("/lake/with space ", "/lake/with space "),
        ("/lake/日本 🎉", "/lake/日本 🎉"),
        ("/lake/$HOME;rm -rf *?", "/lake/$HOME;rm -rf *?"),
        ("/lake/a:b", "/lake/a:b"),
    ],
)
def test_a_location_has_one_spelling(written, canonical):
    assert location.canonical_location(written) == canonical
    assert location.canonical_location(canonical) == canonical


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("", "empty"),
        ("  ", "empty"),
        ("lake/orders", "relative"),
        ("./orders", "relative"),
        ("../orders", "relative"),
        ("~/orders", "relative"),
        (" /lake", "relative"),
        ("file:lake", "relative"),
        ("/", "root folder"),
        ("//", "root folder"),
        ("/lake/..", "root folder"),
        ("file:///", "root folder"),
        ("/lake/a%20b", "'%'"),
        ("s3://bucket/a%2Fb", "'%'"),
        ("s3://bucket/orders#1", "'#'"),
        ("s3://bucket/a?b", "'?'"),
        ("s3://bucket/a[1]", "'['"),
        ("s3://bucket/a|b", "'|'"),
        ("s3://bucket/a^b", "'^'"),
        ("s3://bucket/a\\b", r"'\\'"),
        ("/lake/a\nb", "control characters"),
        ("/lake/a\x00b", "control characters"),
        ("/lake/\x7f", "control characters"),
    ],
)
def test_a_location_that_readers_interpret_differently_is_refused(written, said):
    with pytest.raises(InvalidJobError, match="location") as caught:
        location.canonical_location(written)
    assert said in str(caught.value)


@pytest.mark.parametrize("written", ["hdfs:///lake/orders", "dbfs:/lake/orders"])
def test_a_uri_without_a_bucket_does_not_get_one(written):
    """I6: it is refused or kept, but never becomes another location."""
    try:
        canonical = location.canonical_location(written)
    except InvalidJobError:
        return
    assert "://lake" not in canonical


def test_a_uri_cannot_leave_its_bucket():
    try:
        canonical = location.canonical_location("s3://bucket/../other/orders")
    except InvalidJobError:
        return
    assert canonical.startswith("s3://bucket/")


def test_local_paths_are_distinguished_from_object_stores():
    assert location.is_local("/lake/orders")
    assert not location.is_local("s3://bucket/orders")


@pytest.mark.parametrize(
    ("outer", "inner", "contained"),
    [
        ("/lake", "/lake", True),
        ("/lake", "/lake/orders", True),
        ("/lake/orders", "/lake/orders_2", False),
        ("/lake/orders", "/lake", False),
        ("s3://bucket", "s3://bucket/orders", True),
        ("s3://bucket", "s3://bucket2", False),
    ],
)
def test_containment_goes_by_whole_names(outer, inner, contained):
    assert location.contains(outer, inner) is contained


def test_the_parent_is_the_folder_around():
    assert location.parent("/lake/orders") == "/lake"
    assert location.parent("s3://bucket/lake/orders") == "s3://bucket/lake"


@pytest.mark.parametrize(
    ("folders", "expected"),
    [
        ({"a": "/lake/a", "b": "/lake/b"}, None),
        ({"a": "/lake/a", "b": "/lake/ab"}, None),
        ({"a": "/lake/a", "b": "/lake/a/b"}, ("b", "a")),
        ({"a": "s3://bucket/a", "b": "s3a://bucket/a/b"}, ("b", "a")),
        ({"a": "s3n://bucket/a/b", "b": "s3://bucket/a"}, ("a", "b")),
        ({"a": "abfs://c@x/a", "b": "abfss://c@x/a"}, ("b", "a")),
        ({"a": "s3://bucket/a", "b": "s3a://other/a/b"}, None),
    ],
)
def test_folders_in_one_another_are_found_whatever_name_their_store_has(folders, expected):
    assert location.nested(folders) == expected
