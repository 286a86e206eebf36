"""The windows of several upstreams: all end at one instant, and a change of any of them is a reason for an epoch."""

from __future__ import annotations

import shutil

import pyarrow as pa
import pytest

from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.epoch.failures import GivenUp
from airflow_backfill_provider.core.epoch.giving_up import all_given_up
from airflow_backfill_provider.core.errors import (
    ChangeDataFeedDisabledError,
    InvalidJobError,
    UpstreamReplacedError,
)
from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.protocol.decision import EpochInputs
from airflow_backfill_provider.protocol.other_windows import other_windows
from airflow_backfill_provider.protocol.window_ends import WindowEnds
from airflow_backfill_provider.sources.compared_rows import MOST_COMPARED_ROWS
from tests.several import shape_of_several, star
from tests.shop import Shop, minute

pytestmark = pytest.mark.slow  # whole epochs through Delta tables


def ends(barrier: Barrier) -> dict[str, int]:
    return {window.relation: window.to_offset.number for window in barrier.windows}


@pytest.fixture
def shop(tmp_path):
    with shape_of_several():
        yield Shop(tmp_path)


def test_a_job_begins_with_all_tables_as_of_one_instant(shop):
    shop.order(3, 3)
    shop.customer(5, 3)
    shop.now = 4
    settings = shop.create()
    assert settings.offset_at_creation.number == 1
    assert settings.others["customers"].point.offset.number == 0
    assert settings.others["customers"].names == {"id", "name"}
    assert settings.upstream.names == {"id", "customer"}


def test_all_windows_end_at_the_clocks_instant(shop):
    shop.create()
    shop.order(3, 3)
    shop.customer(5, 3)
    shop.order(6, 4)
    shop.now = 4
    barrier = shop.epoch()
    assert (ends(barrier), barrier.instant) == ({"orders": 1, "customers": 0}, minute(4))
    shop.now = 7
    barrier = shop.epoch()
    assert (ends(barrier), barrier.instant) == ({"orders": 2, "customers": 1}, minute(7))
    assert [barrier.window(name).from_offset.number for name in ("orders", "customers")] == [1, 0]


def test_all_windows_end_at_the_instant_that_is_asked_for(shop):
    shop.create()
    for at in (3, 4, 5):
        shop.order(at, at)
        shop.customer(at, at)
    shop.order(30, 30)
    shop.now = 9
    assert ends(shop.epoch(until=minute(4))) == {"orders": 2, "customers": 2}
    assert ends(shop.epoch(until=minute(60))) == {"orders": 3, "customers": 3}


def test_an_epoch_in_which_only_another_table_changed_is_not_idle(shop):
    shop.create()
    shop.epoch()
    assert shop.ask().barrier is None
    shop.customer(3, 3)
    shop.now = 4
    barrier = shop.epoch()
    assert (barrier.has_changes, barrier.lead_has_changes) == (True, False)
    assert list(barrier.changed_others) == ["customers"]
    assert shop.ask().barrier is None


def test_a_table_that_rests_stops_no_other(shop):
    """The windows do not end at the oldest of the newest commits."""
    shop.create()
    shop.epoch()
    for at in (10, 20, 30):
        shop.order(at, at)
        shop.now = at + 1
        assert ends(shop.epoch()) == {"orders": at // 10, "customers": 0}


def test_a_commit_that_is_stamped_in_the_future_waits_and_is_told(shop):
    shop.create()
    shop.epoch()
    shop.customer(50, 3)
    shop.order(3, 3)
    shop.now = 4
    barrier = shop.epoch()
    assert ends(barrier) == {"orders": 1, "customers": 0}
    assert any("newest commit of customers is stamped" in warning for warning in barrier.warnings)
    shop.now = 51
    assert ends(shop.epoch()) == {"orders": 1, "customers": 1}


@pytest.mark.parametrize("lead_changes", [True, False])
def test_windows_wait_where_the_job_began_while_history_is_read_by_files(tmp_path, lead_changes):
    with shape_of_several():
        shop = Shop(tmp_path, strategy="snapshot", rate_limit=1)
        shop.commit("orders", 1.5, {"id": [8, 9], "customer": [1, 1]})
        shop.create()
        if lead_changes:
            shop.order(3, 3)
        shop.customer(4, 3)
        shop.now = 5
        barrier = shop.ask().barrier
        assert barrier is not None
        assert ends(barrier) == {"orders": 1, "customers": 0}
        assert not barrier.has_changes


def test_a_replay_in_steps_reads_the_other_tables_as_of_each_step(shop):
    """If a strategy ends the window of the lead before its newest offset, the time of that offset is the instant."""
    settings = shop.create()
    first = shop.epoch()
    for at in (3, 5, 7):
        shop.order(at, at)
    for at in (4, 6):
        shop.customer(at, at)
    store, lead = shop.backfill.store, shop.backfill.upstream
    inputs = EpochInputs(
        history=(settings,),
        state=store.repair_state(settings),
        previous=first,
        commit=store.commit_of(first.epoch),
        last_epoch=first.epoch,
    )
    ends = WindowEnds.at(inputs, lead, minute(9), None)
    together = ends.up_to(Offset(2))
    found = other_windows(inputs, ends.upstreams.sources, together, now=minute(9), storage_options=None)
    assert (found.instant, found.windows[0].to_offset, found.changed) == (minute(5), Offset(1), True)


def test_another_table_that_is_replaced_is_refused(shop):
    shop.create()
    shop.epoch()
    shutil.rmtree(f"{shop.folder}/customers")
    shop.versions["customers"] = -1
    shop.commit("customers", 3, {"id": [1], "name": ["z"]})
    shop.now = 4
    with pytest.raises(UpstreamReplacedError, match="customers"):
        shop.ask()


def test_status_tells_each_table(shop):
    shop.create()
    shop.epoch()
    shop.customer(3, 3)
    status = shop.backfill.status(lambda: minute(4))
    assert {name: (found.version.number, found.lag_versions) for name, found in status.upstreams.items()} == {
        "orders": (0, 0),
        "customers": (0, 1),
    }
    assert status.upstreams["orders"].leads
    assert status.lag_versions == 0
    assert status.headroom_hours == status.upstreams["customers"].headroom_hours


def test_a_given_up_epoch_leaves_all_windows_where_they_were(shop):
    settings = shop.create()
    first = shop.epoch()
    shop.customer(3, 3)
    shop.now = 4
    barrier = shop.ask().barrier
    why = GivenUp(
        error="E", message="m", settings_sequence=1, to_offset=barrier.upstream.to_offset, by="tester", at=minute(4)
    )
    left = all_given_up(barrier, previous=first, settings=settings, why=why)
    assert ends(left) == ends(first)
    assert [window.mark for window in left.windows] == [window.mark for window in first.windows]


def test_a_column_that_a_table_does_not_have_is_refused_by_its_name(tmp_path):
    with shape_of_several():
        shop = Shop(tmp_path)
        upstreams = {
            "orders": {"path": f"{tmp_path}/orders", "key": ["id"]},
            "customers": {"path": f"{tmp_path}/customers", "key": ["no"]},
        }
        shop.job = BackfillJob(**star(materialized_view=f"{tmp_path}/view", upstreams=upstreams))
        with pytest.raises(InvalidJobError, match="upstreams.customers.key: .* has no column 'no'"):
            shop.create()


def test_a_table_that_records_no_changes_may_grow_until_it_is_too_large_to_compare(tmp_path):
    """I6: before anything is pinned. A feed that was switched on since needs a rebuild, which then reads it."""
    with shape_of_several():
        shop = Shop(tmp_path, unrecorded=("customers",))
        assert shop.create().others["customers"].compared
        shop.epoch()
        shop.customer(3, 3)
        shop.now = 4
        assert list(shop.epoch().changed_others) == ["customers"]
        many = MOST_COMPARED_ROWS
        shop.commit("customers", 5, {"id": range(many), "name": pa.repeat(pa.scalar("c"), many)})
        shop.now = 6
        with pytest.raises(ChangeDataFeedDisabledError, match="1,000,003 rows as of 2") as refused:
            shop.ask()
        assert "ALTER TABLE" in str(refused.value)
        assert "rebuild" in str(refused.value)
