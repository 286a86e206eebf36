"""What a view has seen of its chain's root by an instant, whenever its epochs committed it, and what it lacks."""

from __future__ import annotations

import datetime as dt

import pytest
from deltalake import DeltaTable, write_deltalake

from airflow_backfill_provider import protocol
from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.jobs import view_logs
from airflow_backfill_provider.jobs.backfill import Backfill
from airflow_backfill_provider.jobs.chain_frontier import offset_as_of
from airflow_backfill_provider.lake.tables.view_identity import FINISHED_PROPERTY
from airflow_backfill_provider.sources.delta.source import DeltaSource
from tests.builders import NOW, Orders, committed_at, job_of
from tests.plain_engine import make
from tests.property.backfilling import TESTER
from tests.several import shape_of_several
from tests.shop import Shop
from tests.writing_engine import WritingEngine, row

pytestmark = pytest.mark.slow  # whole epochs through Delta tables

COUNTED = "rows_are_only_counted"
"""The column of a view that these tests write."""


def minute(number):
    return NOW + dt.timedelta(minutes=number)


class Chained:
    """A job, and the table that it reads."""

    def __init__(self, lake, name, upstream, column="id"):
        self.backfill = Backfill(
            job_of(
                lake,
                name=name,
                upstream={"path": upstream, "key": [column]},
                materialized_view=str(lake / name),
                query=f"SELECT {column} FROM upstream",
                vnode_count=1,
            )
        )
        self.view = DeltaSource(self.backfill.job.materialized_view)

    def run(self, until):
        """Run one epoch that looks at the root as of an instant."""
        injection = protocol.inject_barrier(
            store=self.backfill.store, upstream=self.backfill.upstream, requester=TESTER, until=until
        )
        if injection.barrier is not None:
            protocol.run_epoch(injection.barrier, store=self.backfill.store, engine=WritingEngine())
        return injection


@pytest.fixture
def root(lake):
    return Orders(lake)


def chain(lake, orders):
    for number in range(5):
        orders.add(number)
        committed_at(orders.path, number, minute(number))
    first = Chained(lake, "first", orders.path)
    make(first.backfill)
    return first


def versions_at(source, *instants):
    found = [offset_as_of(source, instant) for instant in instants]
    return [None if offset is None else offset.number for offset in found]


def test_the_version_is_that_of_the_newest_epoch_that_looked_no_further(lake, root):
    first = chain(lake, root)
    first.run(minute(1))
    first.run(minute(3))
    # The view's versions: created, epoch, finished, epoch; all of them committed long after these minutes.
    assert first.view.latest() == Offset(3)
    seen = versions_at(first.view, minute(0.5), minute(1), minute(2.9), minute(3), minute(9))
    assert seen == [None, 2, 2, 3, 3]


def test_an_epoch_that_changed_no_row_counts_too_and_one_that_is_not_committed_does_not(lake, root, monkeypatch):
    monkeypatch.setattr(view_logs, "EPOCHS_AT_ONCE", 1)
    first = chain(lake, root)
    first.run(minute(1))
    DeltaTable(root.path).alter.set_table_properties({"delta.logRetentionDuration": "interval 9 days"})
    committed_at(root.path, 5, minute(5))
    first.run(minute(3))
    DeltaTable(first.view.location).optimize.compact()
    assert versions_at(first.view, minute(3)) == [first.view.latest().number], "a compaction changes no row"
    idle = first.run(minute(4.5))
    assert idle.barrier is not None
    write_deltalake(first.view.location, row(9), mode="append")
    assert versions_at(first.view, minute(9)) == [first.view.latest().number - 1], "its epoch is not in the log yet"


def test_jobs_of_a_chain_see_the_same_instant_of_the_root(lake, root):
    """A scheduled run of the last job must not miss what the jobs before it committed after the interval's end."""
    first = chain(lake, root)
    second = Chained(lake, "second", first.view.location, COUNTED)
    first.run(minute(1))
    make(second.backfill)
    assert second.run(minute(0)).barrier is None
    for instant in (minute(1), minute(3)):
        first.run(instant)
        barrier = second.run(instant).barrier
        assert barrier is not None
        assert barrier.upstream.to_offset == first.view.latest()
    assert versions_at(second.view, minute(0.5), minute(2.9), minute(3)) == [
        None,
        second.view.latest().number - 1,
        second.view.latest().number,
    ]


def test_a_table_that_is_no_view_is_read_as_of_its_commits(root):
    root.add(1)
    committed_at(root.path, 0, minute(0))
    assert versions_at(root.table, minute(-1), minute(1)) == [None, 0]


def test_the_lag_behind_the_root_is_the_age_of_the_oldest_change_there_that_the_view_may_lack(lake, root):
    def behind(job):
        """Return the lag in minutes, ten minutes after the first commit."""
        seconds = job.backfill.status(lambda: minute(10)).root_lag_seconds
        return None if seconds is None else seconds / 60

    first = chain(lake, root)
    second = Chained(lake, "second", first.view.location, COUNTED)
    third = Chained(lake, "third", second.view.location, COUNTED)
    first.run(minute(1))
    for job in (second, third):
        make(job.backfill)
        assert behind(job) is None, "it has read nothing"
        job.run(None)
    assert [behind(job) for job in (first, second, third)] == [None, 8, 8], "the first has not read minute 2"
    first.run(minute(4))
    assert [behind(second), behind(third)] == [9, 9], "nor have they read what the first read after minute 1"
    second.run(None)
    assert [behind(second), behind(third)] == [0, 9]
    DeltaTable(second.view.location).optimize.compact()
    third.run(None)
    assert [behind(second), behind(third)] == [0, 0]


def test_each_of_several_upstreams_has_the_chain_that_leads_to_it(lake, root):
    """Customers are a view of another job; orders are no view. A view of both is behind the root of the customers."""
    first = chain(lake, root)
    first.run(minute(1))
    with shape_of_several():
        shop = Shop(
            lake / "shop",
            upstreams={
                "orders": {"path": str(lake / "shop" / "orders"), "key": ["id"]},
                "customers": {"path": first.view.location, "key": [COUNTED]},
            },
            query=f"SELECT l.id, l.customer, d.{COUNTED} FROM orders AS l LEFT JOIN customers AS d ON "
            f"d.{COUNTED} = l.customer",
        )
        shop.now = 60 * 24 * 365 * 10
        shop.create()
        shop.epoch()
        status = shop.backfill.status(lambda: minute(10))
        DeltaTable(first.view.location).alter.set_table_properties(
            {FINISHED_PROPERTY: "false"}, raise_if_not_exists=False
        )
        waiting = shop.backfill.status(lambda: minute(10))
    assert status.chain == status.upstreams["orders"].chain == ()
    assert [job.name for job in status.upstreams["customers"].chain] == ["first"]
    assert (status.upstreams["orders"].root_lag_seconds, status.waits_for) == (None, None)
    assert status.upstreams["customers"].root_lag_seconds == 8 * 60, "the first has not read minute 2"
    assert (waiting.waits_for or "").startswith("waits for first")
    assert waiting.waits_for in waiting.warnings
