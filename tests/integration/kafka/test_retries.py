"""An epoch that needs many attempts reads what its barrier pinned, whatever the topic has by then."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.epoch.crash_points import CrashPoint
from airflow_backfill_provider.core.errors import ChangeFeedGapError
from airflow_backfill_provider.engine.spark_engine import SparkEngine
from tests.dying import died
from tests.integration.engine.test_crash_points import POINTS
from tests.integration.kafka.shop import TopicOfOrders

pytestmark = pytest.mark.spark


@pytest.mark.exhaustive
def test_an_epoch_dies_one_step_later_each_time(orders: TopicOfOrders) -> None:
    """I2: it reads a chunk of one partition and changes of another, up to the ends that were pinned."""
    orders.kafka.create_topic(orders.topic, 2)
    orders.add(*range(30))
    orders.add(*range(3), partition=1)
    orders.create(rate_limit=12)
    orders.epoch()
    orders.add("change", partition=1)
    for number, point in enumerate(POINTS):
        assert died(point, orders.epoch), point
        # What comes meanwhile belongs to the next epoch, and a new process knows nothing of the last one.
        orders.add(f"later {number}", partition=number % 2)
        orders.engine = SparkEngine(orders.spark.newSession())
    commit = orders.epoch()
    assert commit is not None
    assert (commit.epoch, commit.snapshot_read_row_count, commit.upstream_output_row_count) == (2, 12, 1)
    assert {value for _, _, value in orders.rows()} == {"change", *map(str, range(21))}
    assert len(orders.rows()) == 3 + 21 + 1
    orders.finish()
    assert orders.rows() == sorted(
        [(0, n, str(n)) for n in range(30)]
        + [(1, n, str(n)) for n in range(3)]
        + [(1, 3, "change")]
        + [(n % 2, (30 if n % 2 == 0 else 4) + n // 2, f"later {n}") for n in range(len(POINTS))]
    )
    orders.assert_truth()


def test_records_that_are_gone_after_the_barrier_was_pinned_are_named(orders: TopicOfOrders) -> None:
    """I6: retention may be faster than an attempt. No retry helps, so it must not look as if one did."""
    orders.kafka.create_topic(orders.topic)
    orders.add(*range(10))
    orders.create(rate_limit=5)
    barrier = orders.inject()
    assert barrier is not None
    orders.kafka.delete_records(orders.topic, 3)
    with pytest.raises(ChangeFeedGapError, match="gone"):
        orders.run(barrier)
    assert [commit.given_up for commit in orders.backfill.store.commits()] == [True]
    with pytest.raises(ChangeFeedGapError, match="offsets 0 to 2 of partition 0 are gone"):
        orders.epoch()
    assert orders.rows() == []


@pytest.mark.exhaustive
def test_rows_that_were_written_count_although_they_are_gone_from_the_topic(orders: TopicOfOrders) -> None:
    """I2: the attempt that wrote them died before it committed the state."""
    orders.kafka.create_topic(orders.topic)
    orders.add(*range(10))
    orders.create(rate_limit=5)
    assert died(CrashPoint.AFTER_SNAPSHOT_COMMIT, orders.epoch)
    orders.kafka.delete_records(orders.topic, 3)
    assert orders.epoch() is not None
    orders.finish()
    assert [value for _, _, value in orders.rows()] == [*map(str, range(10))]
