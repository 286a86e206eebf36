"""Writers that add rows at the end of the key order as fast as the rate limit reads them."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.job.rate_limit import PinnedRate
from airflow_backfill_provider.jobs import mutations
from airflow_backfill_provider.jobs.planning.plan import make_plan
from tests.unit.protocol import inject_helpers
from tests.unit.protocol.inject_helpers import over

prepared = inject_helpers.prepared

pytestmark = pytest.mark.slow  # whole epochs through Delta tables


def limits_until_finished(backfilling, *, added):
    """Run epochs until the job is completed, with new greatest keys before each; return their rate limits."""
    greatest, limits = 100, []
    while not limits or not backfilling.store.state().completed:
        assert len(limits) < 40, "it does not end"
        if limits:
            backfilling.orders.add(*range(greatest, greatest + added))
            greatest += added
        barrier = backfilling.inject()
        backfilling.run(barrier)
        limits.append(barrier.rate_limit)
    return limits


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("strategy", "visibility"),
    [
        ("no_shuffle", "every_epoch"),
        ("no_shuffle", "on_finish"),
        ("arrangement", "every_epoch"),
        ("arrangement", "on_finish"),
    ],
)
def test_the_backfill_ends_because_the_limit_is_raised(lake, strategy, visibility):
    """I4, I1."""
    backfilling = over(lake, *range(9), rate_limit=3, strategy=strategy, vnode_count=1, visibility=visibility)
    limits = limits_until_finished(backfilling, added=6)
    assert limits == sorted(limits)
    assert {3, 6, 12} <= set(limits)
    raised = backfilling.store.barriers()[-1].rate
    assert isinstance(raised, PinnedRate)
    assert raised.asked == 3
    assert "added rows about as fast" in raised.reason
    assert len(backfilling.rows()) == len(backfilling.orders.rows)
    assert len({row[0] for row in backfilling.rows()}) == len(backfilling.rows())


@pytest.mark.exhaustive
def test_the_status_says_that_the_limit_is_raised_and_why(lake):
    backfilling = over(lake, *range(9), rate_limit=3)
    limits_until_finished(backfilling, added=6)
    status = backfilling.backfill.status()
    assert (status.rate_limit, status.effective_rate_limit) == (3, backfilling.store.barriers()[-1].rate_limit)
    assert status.rate_limit_reason.startswith("raised from 3 rows so that the backfill ends")


def test_who_throttles_a_job_gets_that_limit(lake):
    """The count of epochs that were held up begins again."""
    backfilling = over(lake, *range(30), rate_limit=3)
    for number in range(8):
        backfilling.epoch()
        backfilling.orders.add(*range(1000 + 6 * number, 1006 + 6 * number))
    assert backfilling.inject().rate_limit == 6
    backfilling.epoch()
    mutations.throttle_job(4, store=backfilling.store, requested_by="x")
    assert make_plan(backfilling.backfill).effective_rate_limit == 4
    barrier = backfilling.inject()
    assert barrier.rate_limit == 4
    assert barrier.held_up <= 1


def test_a_limit_that_writers_leave_room_for_is_kept(lake):
    """I4: they add two rows in an epoch that reads three."""
    backfilling = over(lake, *range(9), rate_limit=3)
    assert set(limits_until_finished(backfilling, added=2)) == {3}


def test_rows_that_are_added_where_everything_is_read_do_not_count(lake):
    """They are changes, and the rows that are left become fewer by the whole limit."""
    backfilling = over(lake, *range(30), rate_limit=3)
    for number in range(9):
        backfilling.orders.add(*(-100 * number - index for index in range(1, 6)))
        barrier = backfilling.inject()
        backfilling.run(barrier)
        assert (barrier.rate_limit, barrier.held_up) == (3, 0)
