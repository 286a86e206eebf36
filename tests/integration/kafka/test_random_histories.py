"""Random producers, settings and deaths: the view has every committed record once, as another client sees them."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.epoch import crash_points
from airflow_backfill_provider.core.epoch.crash_points import CrashPoint
from airflow_backfill_provider.core.scan.progress import BackfillState
from airflow_backfill_provider.jobs import mutations
from airflow_backfill_provider.sources.split_offsets import ends_of
from tests.dying import Died
from tests.integration.kafka.producers import COMPACTED, RandomProducer, consumed
from tests.integration.kafka.shop import TopicOfOrders
from tests.variants import exhaustive

pytestmark = pytest.mark.spark

EPOCHS = 5


class History:
    """
    A job over a topic, whose attempts die at random points, while its producer goes on.

    :param orders: the job, which is made here.
    :param seed: decides on everything.
    """

    def __init__(self, orders: TopicOfOrders, seed: int, **settings: str) -> None:
        self.orders = orders
        orders.kafka.create_topic(orders.topic, 3, **settings)
        self.producer = RandomProducer(orders, seed)
        self.chance = self.producer.chance
        for _ in range(6):
            self.producer.act()
        orders.create(rate_limit=self.chance.choice([1, 5, None]), vnode_count=self.chance.choice([1, 2, 16]))

    def steer(self) -> None:
        """Change the settings between two epochs."""
        store = self.orders.backfill.store
        match self.chance.randrange(4):
            case 0:
                mutations.pause_job(store=store, requested_by="tester")
            case 1 | 2:
                mutations.resume_job(store=store, requested_by="tester")
            case _:
                limit = self.chance.choice([0, 1, 7, 20])
                mutations.throttle_job(limit, store=store, requested_by="tester")

    def epoch(self) -> None:
        """Try an epoch until an attempt of it comes to its end."""
        before = self.state
        for _ in range(20):
            crash_points.install(self._reached)
            try:
                self.orders.epoch()
                break
            except Died:
                continue
            finally:
                crash_points.install(None)
        before.require_successor(self.state, self.orders.backfill.settings().scan.order)

    @property
    def state(self) -> BackfillState:
        return self.orders.backfill.store.state()

    def finish(self) -> None:
        """Let all go on, until there is nothing to do."""
        self.producer.end()
        store = self.orders.backfill.store
        mutations.resume_job(store=store, requested_by="tester")
        mutations.throttle_job(None, store=store, requested_by="tester")
        self.orders.finish()
        assert self.state.completed

    def _reached(self, point: CrashPoint) -> None:
        if self.chance.random() < 0.3:
            self.producer.act()
        if self.chance.random() < 0.1:
            raise Died(point)


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", [3, *range(10, 13)])
def test_every_committed_record_is_in_the_view_once(orders: TopicOfOrders, seed: int) -> None:
    """I1 to I5, with aborted records, an open transaction that holds the end back, and a partition that is added."""
    history = History(orders, seed)
    for number in range(EPOCHS):
        history.producer.act()
        if number == 2:
            orders.add_partitions(4)
        history.steer()
        history.epoch()
    history.finish()
    found = consumed(orders.kafka.servers(), orders.topic, ends_of(orders.backfill.upstream.latest()))
    assert found == history.producer.committed, "the two accounts of the test differ"
    assert orders.rows_with_nulls() == found
    orders.assert_truth()


@pytest.mark.parametrize("seed", [exhaustive(seed) for seed in range(1, 4)])
def test_compaction_takes_nothing_out_of_the_view_and_doubles_nothing(orders: TopicOfOrders, seed: int) -> None:
    """I1: what is left is in the view; what was removed is there once or, if it was not read in time, not at all."""
    history = History(orders, seed, **COMPACTED)
    for _ in range(EPOCHS):
        history.producer.act()
        history.steer()
        history.epoch()
    history.finish()
    left = consumed(orders.kafka.servers(), orders.topic, ends_of(orders.backfill.upstream.latest()))
    rows = orders.rows_with_nulls()
    assert len(left) < len(history.producer.committed), "nothing was compacted"
    assert left.items() <= rows.items() <= history.producer.committed.items()
    orders.assert_truth()
