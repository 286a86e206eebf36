"""What an epoch computes is pinned, and a job that is computed whole needs no changes of its upstream."""

from __future__ import annotations

import pytest
from deltalake import DeltaTable

from airflow_backfill_provider.core import refresh_cost
from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.errors import ChangeDataFeedDisabledError, ChangeFeedGapError
from airflow_backfill_provider.core.refresh import ASKED_FOR, PinnedRefresh
from airflow_backfill_provider.core.refresh_cost import EpochCost
from tests.property.backfilling import Backfilling
from tests.shop import Shop
from tests.unit.protocol.inject_helpers import clean_up, over

pytestmark = pytest.mark.slow  # whole epochs through Delta tables


def without_feed(made):
    DeltaTable(made.orders.path).alter.set_table_properties({"delta.enableChangeDataFeed": "false"})


@pytest.fixture
def whole(lake):
    """A finished job over the orders 0 to 2 that is computed whole."""
    made = over(lake, 0, 1, 2, refresh="full", rate_limit=None)
    list(made.epochs())
    return made


def test_each_epoch_with_changes_computes_the_whole_view_and_says_why(whole):
    """I2: what an epoch computes is pinned. The first one reads history, and has nothing to apply."""
    assert [barrier.refresh for barrier in whole.store.barriers()] == [None]
    whole.orders.add(3)
    barrier = whole.inject()
    assert (barrier.refresh, barrier.computes_whole) == (ASKED_FOR, True)
    assert Barrier.model_validate_json(barrier.model_dump_json()) == barrier


def test_an_epoch_is_due_only_if_the_log_shows_changed_rows(whole):
    assert whole.ask().barrier is None
    whole.orders.compact()
    injection = whole.ask()
    assert injection.barrier is None
    assert "no changes" in injection.reason


def test_the_upstream_need_not_record_its_changes(whole, tmp_path):
    """The rows of a version are enough; a job that reads changes is refused, and told how to switch them on."""
    whole.orders.add(3)
    without_feed(whole)
    whole.orders.add(4)
    assert whole.inject().computes_whole
    reading = Backfilling(tmp_path / "other")
    reading.orders.add(0)
    without_feed(reading)
    with pytest.raises(ChangeDataFeedDisabledError, match="switch it on with: ALTER TABLE"):
        reading.create()


def test_versions_that_the_log_no_longer_has_are_not_missed(whole):
    """A job that reads changes is refused there, because it cannot know what it missed."""
    for i in (3, 4, 5):
        whole.orders.add(i)
    clean_up(whole, up_to=2)
    assert whole.inject().computes_whole


def test_the_same_gap_ends_a_job_that_reads_changes(lake):
    made = over(lake, 0, 1, 2, rate_limit=None)
    list(made.epochs())
    for i in (3, 4, 5):
        made.orders.add(i)
    clean_up(made, up_to=2)
    with pytest.raises(ChangeFeedGapError):
        made.inject()


def test_no_alarm_says_that_changes_may_be_gone(whole):
    """The watchdog warns of changes that are deleted before an epoch reads them; this job reads none."""
    for i in (3, 4, 5):
        whole.orders.add(i)
    assert whole.backfill.read().status().headroom_hours is None


def test_a_job_that_does_not_ask_has_nothing_new_in_its_records(lake):
    """Definitions and barriers of jobs without the field stay as they were, and so do their digests."""
    made = over(lake, 0, rate_limit=None)
    list(made.epochs())
    made.orders.add(1)
    assert "refresh" not in made.inject().model_dump(mode="json")
    assert "refresh" not in made.job.definition()


def test_an_epoch_over_several_upstreams_chooses_by_what_all_of_their_changes_affect(tmp_path, monkeypatch):
    """Fourteen orders of four customers: on average, each of two new ones affects 3.5 orders."""
    monkeypatch.setitem(refresh_cost.EPOCH_COSTS, "join", EpochCost(fixed=0, row=0, change=2))
    shop = Shop(tmp_path, strategy="snapshot", refresh="auto")
    shop.commit("orders", 1.5, {"id": list(range(3, 13)), "customer": [1, 2] * 5})
    shop.create()
    while shop.ask().barrier is not None:
        shop.epoch()
    shop.order(3, 13)
    shop.now = 4
    barrier = shop.epoch()
    assert barrier.refresh == PinnedRefresh(
        whole=False, reason="about 1 row would be joined anew, and below 7 rows a join costs less"
    )
    shop.order(5, 14)
    shop.commit("customers", 5, {"id": [3, 4], "name": ["c", "d"]})
    shop.now = 6
    barrier = shop.epoch()
    assert barrier.computes_whole
    assert barrier.warnings == (), "the epoch does what a warning would ask for"
