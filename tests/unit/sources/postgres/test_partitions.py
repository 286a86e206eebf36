"""What becomes of partitions in a change log."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.sources.change_log.changes import LoggedKind
from airflow_backfill_provider.sources.postgres.catalog import Partition
from airflow_backfill_provider.sources.postgres.partitions import PartitionTrees

LOW = Partition(oid=11, name="low", root=1, was_attached=False)
HIGH = Partition(oid=12, name="high", root=1, was_attached=True)
TREES = PartitionTrees([LOW, HIGH])


def test_a_partition_s_rows_are_those_of_its_table():
    assert [TREES.table_of(oid) for oid in (11, 12, 1, 7)] == ["1", "1", "1", "7"]


@pytest.mark.parametrize(
    ("oids", "kinds"),
    [
        ([7], [("7", LoggedKind.TRUNCATE)]),
        ([12, 11], [("1", LoggedKind.TRUNCATE)]),
        ([1, 11, 12, 7], [("1", LoggedKind.TRUNCATE), ("7", LoggedKind.TRUNCATE)]),
        ([1, 11], [("1", LoggedKind.TRUNCATE)]),
        ([12], [("1", LoggedKind.PART_REMOVED)]),
    ],
)
def test_a_table_is_truncated_if_it_is_named_or_all_of_its_partitions_are(oids, kinds):
    """If it is named, a partition that is missing was made later."""
    assert [(row["table"], row["kind"]) for row in TREES.truncated(oids)] == kinds


def test_a_truncated_part_is_named():
    (row,) = TREES.truncated([12])
    assert row["new"] == {"text": "TRUNCATE of high, and not of the whole table"}


def test_known_partitions_are_no_difference():
    assert list(TREES.differences({"1": {"11": "low", "12": "high"}})) == []


def test_the_first_partitions_that_are_seen_are_only_recorded():
    (row,) = TREES.differences({})
    assert (row["kind"], row["new"]) == (LoggedKind.PARTITIONS, {"11": "low", "12": "high"})


@pytest.mark.parametrize(
    ("known", "texts"),
    [
        ({"12": "high"}, []),
        ({"11": "low"}, ["ATTACH of partition high, which may have had rows"]),
        ({"11": "low", "12": "high", "13": "old"}, ["DETACH or DROP of partition old"]),
    ],
)
def test_rows_that_came_or_went_with_a_partition_are_recorded(known, texts):
    """A partition that was made as one had no rows before."""
    first, *others = TREES.differences({"1": known})
    assert first["kind"] is LoggedKind.PARTITIONS
    assert [(row["kind"], row["new"]["text"]) for row in others] == [(LoggedKind.PART_REMOVED, text) for text in texts]
