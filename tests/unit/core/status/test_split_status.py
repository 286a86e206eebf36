"""The status of each split: what is read, what is there, and how far it is."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.job.upstream import UpstreamDefinition
from airflow_backfill_provider.core.scan.offset import HistoryPoint, Offset
from airflow_backfill_provider.core.scan.progress import BackfillState, Completed, InProgress, NotStarted
from airflow_backfill_provider.core.scan.spark_hash import vnode_of_number
from airflow_backfill_provider.core.status.split_status import split_map
from airflow_backfill_provider.sources.split_offsets import offset_of
from tests.builders import job_of, settings_of

VNODES = 8
TOPIC = {"kafka": {"connection": "events", "topic": "orders"}}


def splits(progress, *, begins, at_creation, reached, latest):
    """Return the map of a job whose vnodes are as given by split; the other vnodes are completed."""
    vnodes = [Completed(None, 0)] * VNODES
    for split, found in progress.items():
        vnodes[vnode_of_number(split, VNODES)] = found
    settings = settings_of(
        job_of(upstream=TOPIC, vnode_count=VNODES),
        strategy="source",
        start=HistoryPoint(offset=offset_of(begins), mark="topic"),
        offset_at_creation=offset_of(at_creation),
    )
    found = split_map(
        settings,
        BackfillState(epoch=2, vnodes=tuple(vnodes)),
        reached=None if reached is None else offset_of(reached),
        latest=offset_of(latest),
    )
    return [(one.stage.value, one.begin, one.next, one.end, one.lag, one.rows) for one in found]


def test_an_upstream_without_splits_has_no_map():
    state = BackfillState(epoch=1, vnodes=(NotStarted(),) * 4)
    assert UpstreamDefinition.split_ends.__doc__
    assert split_map(settings_of(), state, reached=Offset(1), latest=Offset(2)) == ()


def test_before_the_first_epoch_nothing_is_read():
    found = splits({0: NotStarted()}, begins={0: 3}, at_creation={0: 10}, reached=None, latest={0: 12})
    assert found == [("backfilling", 3, 3, 12, 9, 0)]


@pytest.mark.parametrize(
    ("progress", "expected"),
    [
        (InProgress((0, 7), 5), ("backfilling", 3, 8, 20, 12, 5)),
        (InProgress((0, 11), 8), ("catching_up", 3, 12, 20, 8, 8)),
        (Completed((0, 11), 12), ("finished", 3, 15, 20, 5, 12)),
    ],
)
def test_a_split_is_backfilled_catches_up_and_is_finished(progress, expected):
    found = splits({0: progress}, begins={0: 3}, at_creation={0: 10}, reached={0: 15}, latest={0: 20})
    assert found == [expected]


def test_a_split_that_was_added_is_listed_before_an_epoch_knows_of_it():
    found = splits({}, begins={0: 0}, at_creation={0: 1}, reached={0: 5}, latest={0: 5, 1: 4})
    assert found[1] == ("finished", 0, 0, 4, 4, 0)


def test_rows_of_splits_that_share_a_vnode_are_not_told_apart():
    one = next(split for split in range(1, 100) if vnode_of_number(split, VNODES) == vnode_of_number(0, VNODES))
    ends = dict.fromkeys(range(one + 1), 2)
    found = splits({0: Completed(None, 4)}, begins={}, at_creation=ends, reached=ends, latest=ends)
    assert found[0][-1] is found[one][-1] is None
