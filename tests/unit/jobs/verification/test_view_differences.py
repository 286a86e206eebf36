"""Which versions of two views are compared before a cut-over, and what is recorded."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.errors import NotFinishedError
from airflow_backfill_provider.core.job.requester import Requester
from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.core.status.view_difference import ViewAt
from airflow_backfill_provider.jobs.verification import view_differences
from tests.cut_overs import ONE_CHANGED, KnownComparer, seen
from tests.unit.jobs.waiting import change, grow, grown, step

pytestmark = pytest.mark.slow  # whole epochs through Delta tables


def test_two_views_without_a_common_point_are_compared_at_their_newest(served):
    grow(served)
    served.orders.change([3], amount=7)
    grown(served)
    shown = seen(served.backfill, KnownComparer(), served.clock)
    assert not shown.sides.at_one_point
    assert shown.sides.served.upstreams != shown.sides.waiting.upstreams


def test_views_are_compared_at_the_newest_point_that_both_have_read(served):
    grow(served)
    grown(served)
    for amount in (7, 8):
        served.orders.change([3], amount=amount)
        served.epoch()
        assert step(served)
    served.orders.change([3], amount=9)
    served.epoch()
    comparer = KnownComparer()
    shown = seen(served.backfill, comparer, served.clock)
    assert shown.sides.at_one_point
    newest = served.orders.table.latest()
    assert shown.sides.waiting.upstreams == {"upstream": Offset(newest.number - 1)}
    (sides,) = comparer.asked
    assert (sides.served.version, sides.waiting.version) == (
        shown.sides.served.view_version,
        shown.sides.waiting.view_version,
    )


def test_a_changed_query_is_compared_at_the_epoch_of_the_view(served):
    epoch = served.store.last_epoch()
    change(served)
    served.orders.change([3], amount=7)
    comparer = KnownComparer()
    shown = seen(served.backfill, comparer, served.clock)
    assert (shown.sides.served.epoch, shown.sides.waiting.epoch) == (epoch, epoch)
    (sides,) = comparer.asked
    assert not isinstance(sides.waiting, ViewAt)
    assert sides.waiting.pinned.epoch == sides.waiting.barrier.epoch == epoch


def test_values_are_read_again_and_not_recorded(served):
    change(served)
    shown = view_differences.compare_waiting(
        served.backfill, comparer=KnownComparer, requester=Requester(user="vera"), clock=served.clock
    )
    assert [found.key for found in shown.values(KnownComparer())] == [found.key for found in ONE_CHANGED.sample]
    recorded = view_differences.newest_difference(served.backfill)
    assert (recorded, recorded.requested_by) == (shown.recorded, "vera")


def test_an_approval_needs_a_difference_that_was_seen(served):
    change(served)
    with pytest.raises(NotFinishedError, match="no difference of the changed query is recorded"):
        view_differences.difference_to_approve(served.backfill, None)
    with pytest.raises(NotFinishedError, match="no difference 4 of the changed query"):
        view_differences.difference_to_approve(served.backfill, 4)
    shown = seen(served.backfill, KnownComparer(), served.clock)
    assert view_differences.difference_to_approve(served.backfill, None) == shown
    assert view_differences.difference_to_approve(served.backfill, shown.number) == shown
