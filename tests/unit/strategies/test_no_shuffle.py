"""``no_shuffle``: what it suits, what it costs, and the next chunk by the upstream's files."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.scan.file_statistics import FileStatistics
from airflow_backfill_provider.core.scan.keys import KeyRange
from airflow_backfill_provider.core.scan.progress import Completed, InProgress
from airflow_backfill_provider.strategies.base import ChunkInputs
from airflow_backfill_provider.strategies.inputs import EPOCHS_OF_A_PAUSED_JOB, StrategyInputs
from airflow_backfill_provider.strategies.no_shuffle import NoShuffle
from tests.builders import Orders, job_of, order_of, settings_of
from tests.unit.strategies.scan_states import state_of

KIND = NoShuffle()


def inputs(*, files=10, overlap=0.0, **job):
    """Facts about 200 rows in files of 1000 bytes each."""
    found = [FileStatistics(path=f"{number}", row_count=200 // files, size=1000) for number in range(files)]
    return StrategyInputs(job=job_of(**job), files=found, rows=200, overlap=overlap, used_share=1.0)


# --- choosing -------------------------------------------------------------------------------------


@pytest.mark.parametrize("rate_limit", [None, 200, 1000])
def test_one_epoch_reads_everything_in_place(rate_limit):
    offer = KIND.offer(inputs(overlap=1.0, rate_limit=rate_limit))
    assert (offer.fits, offer.reason) == (True, "one epoch reads everything in place")


@pytest.mark.parametrize(
    ("rate_limit", "overlap", "fits"),
    [
        (100, 1.0, True),
        (50, 1.0, True),  # four times a chunk is not too much to scan
        (49, 1.0, False),
        (20, 0.4, True),
        (20, 0.41, False),
        (1, 0.0, True),
    ],
)
def test_it_fits_unless_an_epoch_would_scan_too_much_for_its_chunk(rate_limit, overlap, fits):
    offer = KIND.offer(inputs(overlap=overlap, rate_limit=rate_limit))
    assert offer.fits is fits
    assert ("bound each chunk: " if fits else "statistics cannot bound a chunk: ") in offer.reason
    assert f"{round(overlap * 200)} of 200 rows lie in files that overlap others in id" in offer.reason


def test_a_job_that_begins_paused_is_not_taken_for_one_epoch():
    """Of the ten epochs that are assumed each reads twenty rows."""
    assert EPOCHS_OF_A_PAUSED_JOB == 10
    assert KIND.offer(inputs(overlap=0.4, rate_limit=0)).fits
    assert not KIND.offer(inputs(overlap=0.5, rate_limit=0)).fits


def test_parallel_task_runs_need_their_own_vnodes():
    offer = KIND.offer(inputs(rate_limit=20, parallelism=2))
    assert (offer.fits, offer.reason) == (False, "2 parallel task runs must divide the vnodes")


@pytest.mark.parametrize(
    ("overlap", "rate_limit", "size"),
    [(0.0, 20, 10_000), (1.0, 20, 100_000), (0.25, 20, 35_000), (1.0, None, 10_000), (0.001, 1, 12_000)],
)
def test_files_that_overlap_are_opened_by_several_epochs_and_at_most_by_all(overlap, rate_limit, size):
    assert KIND.cost(inputs(overlap=overlap, rate_limit=rate_limit)).bytes == size


def test_parallel_task_runs_are_refused_wherever_they_are_requested():
    with pytest.raises(InvalidJobError, match="^parallelism: 2 task runs cannot share the one position"):
        KIND.require_job(job_of(parallelism=2))
    KIND.require_job(job_of())
    with pytest.raises(InvalidJobError, match="job paid_orders cannot be rescaled to 3"):
        KIND.require_parallelism(3, settings_of())
    KIND.require_parallelism(1, settings_of())


# --- planning -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def upstream(tmp_path_factory):
    """The orders 0 to 8 in three files; nothing here changes it."""
    orders = Orders(tmp_path_factory.mktemp("orders"))
    for start in (0, 3, 6):
        orders.add(*range(start, start + 3))
    return orders.table


def planned(upstream, *, progress=None, settings):
    scan = settings.scan
    state = scan.initial(0) if progress is None else state_of(*[progress] * scan.vnode_count)
    latest = upstream.latest()
    inputs = ChunkInputs(
        settings=settings,
        rate_limit=settings.rate_limit,
        state=state,
        upstream=upstream,
        kept_up_to=latest,
        offset=latest,
        newest=latest,
        previous=None,
        storage_options=None,
    )
    return KIND.next_chunk(inputs)


def settings(upstream, **changes):
    job = job_of(upstream={"path": upstream.location, "key": ["id"]}, **changes.pop("job", {}))
    return settings_of(job, **changes)


@pytest.mark.parametrize(
    ("progress", "rate_limit", "chunk"),
    [
        (None, 4, KeyRange(None, (3,))),
        (InProgress((3,), 4), 4, KeyRange((3,), (7,))),
        (InProgress((7,), 8), 4, KeyRange((7,), None)),
        (None, None, KeyRange(None, None)),
    ],
)
def test_a_chunk_begins_at_the_position_and_has_as_many_rows_as_the_rate_limit(upstream, progress, rate_limit, chunk):
    """I4."""
    plan = planned(upstream, progress=progress, settings=settings(upstream, rate_limit=rate_limit))
    assert (plan.row_count, plan.ranges, plan.prepares) == (9, (chunk,), False)


@pytest.mark.parametrize("change", [{"rate_limit": 0}, {"paused": True, "rate_limit": 4}])
def test_a_job_that_reads_no_snapshot_is_measured_all_the_same(upstream, change):
    plan = planned(upstream, settings=settings(upstream, **change))
    assert (plan.row_count, plan.parts) == (9, ())


def test_a_job_over_a_range_of_keys_reads_no_further(upstream):
    restricted = {"job": {"restrict_to": {"keys": {"after": [2], "up_to": [6]}}}}
    plan = planned(upstream, settings=settings(upstream, rate_limit=None, **restricted))
    assert (plan.row_count, plan.ranges) == (4, (KeyRange((2,), (6,)),))


def test_its_scan_is_by_key():
    scan = KIND.scan(settings_of())
    assert (scan.order, scan.vnode_count) == (settings_of().key_order, 4)
    assert scan.unread(state_of(*[Completed(None, 0)] * 4)) == ()
    assert order_of("long").fields[0].type == scan.order.fields[0].type
