"""What becomes of partitions in a change log."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.sources.postgres.partitions import PartitionTrees
from airflow_backfill_provider.sources.shared.change_log.changes import LoggedKind
from airflow_backfill_provider.sources.shared.change_log.queries import LoggedPartitions
from airflow_backfill_provider.sources.shared.postgresql.catalog import Partition

LOW = Partition(oid=11, name="low", was_attached=False, since="700")
HIGH = Partition(oid=12, name="high", was_attached=True, since="701 702")
TREES = PartitionTrees({1: [LOW, HIGH], 2: []})
SINCE = {"11": "700", "12": "701 702"}
NONE = LoggedPartitions({}, {})


def rows_for(names, since=None):
    """The rows for table 1, if these partitions are known."""
    known = LoggedPartitions(names, {oid: SINCE.get(oid, "1") for oid in names} if since is None else since)
    return list(TREES.differences({"1": known, "2": NONE}))


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
    assert rows_for({"11": "low", "12": "high"}) == []


def test_the_first_partitions_that_are_seen_are_only_recorded():
    """Also that there are none, so that the first one that is attached is noticed."""
    found = [(row["table"], row["kind"], row["new"], row["old"]) for row in TREES.differences({"1": None})]
    partitions = LoggedKind.PARTITIONS
    assert found == [("1", partitions, {"11": "low", "12": "high"}, SINCE), ("2", partitions, {}, {})]


@pytest.mark.parametrize(
    ("known", "since", "texts"),
    [
        ({"12": "high"}, None, []),
        ({"11": "low"}, None, ["ATTACH of partition high, which may have had rows"]),
        ({}, None, ["ATTACH of partition high, which may have had rows"]),
        ({"11": "low", "12": "high", "13": "old"}, None, ["DETACH or DROP of partition old"]),
        ({"11": "low", "12": "before"}, None, []),
        (
            {"11": "low", "12": "high"},
            {"11": "699", "12": "701 699"},
            ["DETACH of partition low, which was attached again", "DETACH of partition high, which was attached again"],
        ),
    ],
)
def test_rows_that_came_or_went_with_a_partition_are_recorded(known, since, texts):
    """A partition that was made as one had no rows before, and another name changes nothing."""
    first, *others = rows_for(known, since)
    assert (first["kind"], first["old"]) == (LoggedKind.PARTITIONS, SINCE)
    assert [(row["kind"], row["new"]["text"]) for row in others] == [(LoggedKind.PART_REMOVED, text) for text in texts]
