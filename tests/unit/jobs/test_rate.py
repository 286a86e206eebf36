"""The rate limit of the next epoch, as injection finds it in the barrier log and the upstream."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.epoch.spark_load import SparkLoad
from airflow_backfill_provider.core.job.rate_limit import PinnedRate
from airflow_backfill_provider.jobs import mutations
from tests.property.backfilling import Prepared
from tests.property.memory_engine import MemoryEngine

pytestmark = pytest.mark.slow  # whole epochs through Delta tables


class Timed(MemoryEngine):
    """
    An engine that takes the same time for each row.

    :param warehouse: as for the engine in memory.
    :param seconds: of a row.
    :param load: Spark's load during each epoch.
    """

    def __init__(self, warehouse, seconds=1.0, load=None):
        super().__init__(warehouse)
        self.of_a_row, self.load = seconds, load

    def run_epoch(self, settings, barrier, *, since):
        writes = super().run_epoch(settings, barrier, since=since)
        rows = sum(writes.snapshot_rows.values())
        return type(writes)(
            writes.snapshot_rows, writes.change_rows, {"chunk": rows * self.of_a_row}, writes.rows_added, self.load
        )


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    return Prepared(tmp_path_factory.mktemp("prepared"), range(200), rate_limit=5)


@pytest.fixture
def backfilling(prepared):
    """A created job over the orders 0 to 199, five rows an epoch."""
    return prepared.restore()


def throttle(backfilling, rate_limit="auto", **asked):
    mutations.throttle_job(rate_limit, store=backfilling.store, requested_by="x", **asked)


def limits(backfilling, engine, most=20):
    """Run epochs to the end, and return their limits."""
    found = []
    for _ in range(most):
        barrier = backfilling.ask().barrier
        if barrier is None:
            break
        found.append(barrier.rate_limit)
        if backfilling.run(barrier, engine).completed:
            break
    return found


def test_epochs_grow_to_the_time_that_they_should_take_and_stay_there(backfilling):
    """From the limit that the job had before; 40 rows take 4,000 seconds, next to which the real ones are nothing."""
    backfilling.epoch()
    throttle(backfilling, target_epoch_seconds=4000)
    engine = Timed(backfilling.warehouse, 100.0)
    backfilling.run(backfilling.inject(), engine)
    assert limits(backfilling, engine)[:3] == [20, 40, 40]
    backfilling.assert_truth()


def test_every_epoch_pins_its_limit_and_says_why(backfilling):
    """I2: whoever runs the epoch, it has the limit of the barrier."""
    throttle(backfilling, target_epoch_seconds=0.001)
    first = backfilling.inject()
    size = first.rate.row_bytes
    assert first.rate_limit == int(0.001 * (1 << 20) / size)
    assert first.rate.reason == "because no speed is measured yet; it begins with about 1.0 KiB of the upstream"
    commit = backfilling.run(first, Timed(backfilling.warehouse, 0.01))
    rows, spent = commit.snapshot_read_row_count, sum(commit.seconds.values())
    assert spent > rows * 0.01
    second = backfilling.inject()
    assert second.rate == PinnedRate(
        asked="auto",
        reason=f"because the last epoch read {rows} rows in {spent:.2g} s of the 0.001 s wanted",
        row_bytes=size,
    )


def test_another_request_for_the_same_epoch_gets_the_same_limit(backfilling):
    throttle(backfilling)
    assert backfilling.inject() == backfilling.inject()


def test_a_late_application_gets_less(backfilling):
    throttle(backfilling, 20)
    late = Timed(backfilling.warehouse, load=SparkLoad(spilled_bytes=9))
    backfilling.run(backfilling.inject(), late)
    throttle(backfilling, target_epoch_seconds=0.0001)
    barrier = backfilling.inject()
    assert barrier.rate_limit == 10
    assert "Spark was late with it: it spilled 9 bytes to disk" in barrier.rate.reason


def test_the_memory_of_the_last_epochs_cluster_bounds_the_next(backfilling):
    backfilling.epoch()
    throttle(backfilling)
    engine = Timed(backfilling.warehouse, load=SparkLoad(memory_bytes=1 << 10))
    backfilling.run(backfilling.inject(), engine)
    barrier = backfilling.inject()
    assert barrier.rate_limit == int((1 << 10) * 0.6 / 4 / barrier.rate.row_bytes) or barrier.rate_limit == 1
    assert barrier.rate.reason == "because no more rows fit into Spark's memory"


@pytest.mark.parametrize("how", ["pause", "zero"])
def test_a_job_that_reads_nothing_stays_so(backfilling, how):
    throttle(backfilling)
    if how == "pause":
        mutations.pause_job(store=backfilling.store, requested_by="x")
    else:
        throttle(backfilling, 0)
    assert backfilling.ask().barrier is None


def test_a_fixed_limit_pins_no_reason(backfilling):
    assert backfilling.inject().rate is None
    assert backfilling.inject().rate_limit == 5


def test_a_finished_job_reads_no_log_for_it(backfilling):
    throttle(backfilling, None)
    backfilling.finish()
    throttle(backfilling)
    backfilling.orders.add(500)
    commit = backfilling.epoch()
    assert commit.completed
    assert backfilling.store.barriers()[-1].rate.reason.startswith("because no speed is measured yet")
