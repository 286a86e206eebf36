"""How far a view is behind its topic: in records, in seconds, and as a watch sees it."""

from __future__ import annotations

import datetime as dt
import time

import pytest

from airflow_backfill_provider.core.errors import UpstreamNotFoundError
from airflow_backfill_provider.core.scan.offset import Offset
from tests.integration.kafka.shop import TopicOfOrders

pytestmark = pytest.mark.spark


def test_the_lag_counts_records_and_the_age_of_the_oldest_unread_one(orders: TopicOfOrders) -> None:
    orders.kafka.create_topic(orders.topic, 2)
    orders.add("a", "b")
    orders.create()
    orders.finish()
    status = orders.backfill.status()
    assert (status.lag_versions, status.lag_seconds, status.behind_since) == (0, 0.0, None)

    written_at = dt.datetime.now(dt.UTC).replace(microsecond=0) - dt.timedelta(minutes=5)
    for age in (0, 60):
        at = int(written_at.timestamp() + age) * 1000
        orders.producer.produce(orders.topic, str(age), partition=age // 60, timestamp=at)
    assert orders.producer.flush(30) == 0
    status = orders.backfill.status()
    assert (status.lag_versions, status.behind_since) == (2, written_at)
    assert [(split.split, split.stage.value, split.lag) for split in status.splits] == [
        (0, "finished", 1),
        (1, "finished", 1),
    ]


@pytest.mark.exhaustive
def test_a_watch_sees_new_records_and_a_topic_that_is_made_anew(orders: TopicOfOrders) -> None:
    orders.kafka.create_topic(orders.topic)
    orders.create()
    watch = orders.backfill.upstream.watch()
    first, topic = watch.look()
    assert (first, watch.look()) == (Offset((0, "0")), (first, topic))
    seen_at = watch.seen_at(Offset((0, "0")))
    orders.add("a")
    newest, _ = watch.look()
    assert newest == Offset((1, "1"))
    assert watch.seen_at(newest) > seen_at
    with pytest.raises(UpstreamNotFoundError, match="has not found offset"):
        watch.seen_at(Offset((0, "0")))
    orders.kafka.delete_topic(orders.topic)
    assert watch.look() == (None, None)
    orders.kafka.create_topic(orders.topic)
    assert watch.look()[1] != topic


@pytest.mark.exhaustive
def test_offsets_at_an_instant_never_go_back_behind_what_was_read(orders: TopicOfOrders) -> None:
    """I3: producers set timestamps, so a younger record may lie before an older one. None is read twice."""
    orders.kafka.create_topic(orders.topic, 2)
    now = int(time.time() * 1000)
    for age, partition in ((0, 0), (600_000, 0), (300_000, 1)):
        orders.producer.produce(orders.topic, f"{age}", partition=partition, timestamp=now - age)
    assert orders.producer.flush(30) == 0
    orders.create()
    orders.finish()
    source, reached = orders.backfill.upstream, Offset((3, "2 1"))
    before = source.offset_at(dt.datetime.fromtimestamp(now / 1000 - 400, dt.UTC))
    assert before == Offset((0, "0 0"))
    assert source.not_before(before, reached) == reached
    assert source.not_before(Offset((4, "0 4")), reached) == Offset((6, "2 4"))
