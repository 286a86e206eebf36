"""The adaptive rate limit: bounded steps, the speed that was measured, and what it never exceeds."""

import datetime as dt
import random
import statistics
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from airflow_backfill_provider.core.epoch.auto_rate import (
    RECENT,
    ChunkBounds,
    MeasuredEpoch,
    epochs_for,
    limit_in_force,
    measured_epochs,
)
from airflow_backfill_provider.core.epoch.spark_load import SparkLoad
from airflow_backfill_provider.core.job.rate_limit import AskedRate
from tests.builders import barrier_of, commit_of

AUTO = AskedRate(rate_limit="auto")
LATE = SparkLoad(spilled_bytes=5 << 20)

LOADS = st.one_of(
    st.none(),
    st.builds(
        SparkLoad,
        spilled_bytes=st.sampled_from([None, 0, 1 << 30]),
        gc_share=st.sampled_from([None, 0.0, 0.19, 0.5]),
        queued_seconds=st.sampled_from([None, 0.0, 1.0, 500.0]),
    ),
)
EPOCHS = st.builds(
    MeasuredEpoch,
    limit=st.one_of(st.none(), st.integers(1, 10**9)),
    rows=st.integers(1, 10**9),
    chunk_seconds=st.floats(0.001, 10_000),
    changes_seconds=st.floats(0, 1000),
    load=LOADS,
)
ASKED = st.builds(
    AskedRate,
    rate_limit=st.just("auto"),
    target_epoch_seconds=st.one_of(st.none(), st.floats(0.5, 3600)),
    max_rows_per_second=st.one_of(st.none(), st.integers(1, 10**6)),
)
OUTLOOKS = st.builds(
    ChunkBounds,
    held=st.one_of(st.none(), st.integers(1, 10**9)),
    row_bytes=st.one_of(st.none(), st.floats(0.1, 10**6)),
    readable_for=st.one_of(st.none(), st.timedeltas(dt.timedelta(seconds=1), dt.timedelta(days=30))),
    memory_bytes=st.one_of(st.none(), st.integers(1, 1 << 45)),
)


def epoch(rows, seconds, **fields):
    return MeasuredEpoch(**{"limit": rows, "rows": rows, "chunk_seconds": seconds, **fields})


def chosen(*epochs, asked=AUTO, **outlook):
    return limit_in_force(asked, epochs, ChunkBounds(**outlook))


# --- whatever was measured ------------------------------------------------------------------------


@given(ASKED, st.lists(EPOCHS, max_size=RECENT), OUTLOOKS)
def test_the_limit_is_at_least_one_row_and_says_why(asked, epochs, outlook):
    """I4."""
    found = limit_in_force(asked, epochs, outlook)
    assert found.rows is not None
    assert found.rows >= 1
    assert found.reason


@given(ASKED, st.lists(EPOCHS, min_size=1, max_size=RECENT), OUTLOOKS)
def test_a_step_is_at_most_to_twice_or_half_of_the_last_limit(asked, epochs, outlook):
    last = epochs[-1].limit or epochs[-1].rows
    found = limit_in_force(asked, epochs, outlook).rows
    assert found <= max(2 * last, 1)
    bounds = [most for most in (outlook.rows_in_memory, asked.most_by_pace) if most is not None]
    assert found >= min([last // 2, *bounds])


@given(ASKED, st.lists(EPOCHS, max_size=RECENT), OUTLOOKS)
def test_the_limit_is_never_above_what_memory_and_pace_allow(asked, epochs, outlook):
    found = limit_in_force(asked, epochs, outlook).rows
    assert outlook.rows_in_memory is None or found <= outlook.rows_in_memory
    assert asked.most_by_pace is None or found <= asked.most_by_pace


@given(ASKED, st.lists(EPOCHS, min_size=1, max_size=RECENT), OUTLOOKS)
def test_the_limit_never_grows_while_one_of_the_last_epochs_was_late(asked, epochs, outlook):
    assume(any(each.lateness for each in epochs))
    assert limit_in_force(asked, epochs, outlook).rows <= (epochs[-1].limit or epochs[-1].rows)


@given(ASKED, st.lists(EPOCHS, max_size=RECENT), OUTLOOKS)
def test_the_same_records_give_the_same_limit(asked, epochs, outlook):
    """I2: two injectors choose the same."""
    assert limit_in_force(asked, epochs, outlook) == limit_in_force(asked, list(epochs), outlook)


@given(
    fixed=st.floats(0, 20),
    per_second=st.floats(100, 10**6),
    first=st.integers(100, 10**6),
    target=st.floats(30, 600),
)
def test_epochs_come_to_take_as_long_as_wanted_and_stay_there(fixed, per_second, first, target):
    """On a steady machine, whatever an epoch costs besides its rows."""
    asked = AskedRate(rate_limit="auto", target_epoch_seconds=target)
    epochs = [epoch(first, fixed + first / per_second)]
    for _ in range(40):
        rows = limit_in_force(asked, epochs[-RECENT:], ChunkBounds()).rows
        epochs.append(epoch(rows, fixed + rows / per_second))
    assert all(0.75 * target <= each.seconds <= 1.1 * target for each in epochs[-5:])


@given(st.floats(34, 300), st.floats(0.0001, 0.01), st.integers(0, 2**32))
def test_a_large_fixed_cost_never_brings_the_backfill_to_a_halt(fixed, per_row, seed):
    """Although every epoch takes longer than wanted, whatever it reads and however quick it was by chance."""
    asked, noise = AskedRate(rate_limit="auto", target_epoch_seconds=30), random.Random(seed)
    epochs = [epoch(1000, fixed)]
    for _ in range(60):
        rows = limit_in_force(asked, epochs[-RECENT:], ChunkBounds()).rows
        epochs.append(epoch(rows, (fixed + per_row * rows) * noise.uniform(0.9, 1.1)))
    assert statistics.mean(each.rows for each in epochs[-20:]) > 100


# --- examples -------------------------------------------------------------------------------------


def test_the_limit_follows_the_measured_speed_and_names_it():
    found = chosen(epoch(600_000, 40))
    assert found.rows == 900_000
    assert found.reason == "because the last epoch read 600,000 rows in 40 s of the 60 s wanted"


def test_the_fixed_cost_of_an_epoch_is_told_apart_from_the_cost_of_its_rows():
    """Ten seconds whatever it reads, and a second for each thousand rows: fifty thousand take a minute."""
    epochs = [epoch(1000 * n, 10 + n) for n in (15, 30)]
    assert chosen(epochs[1]).rows == 45_000
    assert chosen(*epochs).rows == 50_000


def test_epochs_that_are_alike_do_not_tell_the_fixed_cost():
    assert chosen(epoch(10_000, 30), epoch(10_500, 30)).rows == 21_000


def test_an_epoch_of_nothing_but_fixed_cost_still_leaves_time_for_rows():
    """Otherwise a slow commit would end the backfill's progress."""
    asked = AskedRate(rate_limit="auto", target_epoch_seconds=30)
    epochs = [epoch(1000, 100), epoch(2000, 101)]
    for _ in range(20):
        rows = chosen(*epochs[-RECENT:], asked=asked).rows
        epochs.append(epoch(rows, 99 + rows / 1000))
    assert epochs[-1].rows > 5000


def test_changes_take_their_time_of_the_epoch():
    assert chosen(epoch(1000, 20, changes_seconds=40)).rows == 1000
    assert chosen(epoch(1000, 20, changes_seconds=20)).rows == 2000


def test_a_late_application_halves_the_limit_and_is_named():
    found = chosen(epoch(8_000_000, 10, load=LATE))
    assert found.rows == 4_000_000
    assert found.reason == "less than the last one, because Spark was late with it: it spilled 5.0 MiB to disk"


def test_lateness_that_does_not_come_from_the_chunk_does_not_stop_the_backfill():
    """The limit falls no further than to the first chunk, and stays where it is if it is smaller."""
    epochs = [epoch(1_000_000, 60, load=LATE)]
    for _ in range(30):
        epochs.append(epoch(chosen(*epochs[-RECENT:], row_bytes=1000.0).rows, 10, load=LATE))
    assert epochs[-1].rows == chosen(row_bytes=1000.0).rows == 62_914
    stays = chosen(epoch(50, 60, load=LATE))
    assert (stays.rows, stays.reason.partition(",")[0]) == (50, "not more than the last one")


def test_after_a_late_epoch_the_limit_grows_again_once_it_is_old():
    late, good = epoch(8000, 60, load=LATE), epoch(4000, 10)
    assert chosen(late, good).rows == 4000
    assert chosen(late, good).reason.startswith("not more than before, because Spark was late with one of the last")
    assert chosen(*[good] * RECENT).rows == 8000


def test_memory_bounds_a_chunk():
    found = chosen(epoch(1_000_000, 30), row_bytes=1000.0, memory_bytes=2 << 30)
    assert found.rows == 322_122
    assert found.reason == "because no more rows fit into Spark's memory"
    assert chosen(epoch(1_000_000, 30), memory_bytes=2 << 30).rows == 2_000_000, "the size of a row is unknown"


def test_retention_shortens_the_epoch():
    found = chosen(epoch(1000, 10), readable_for=dt.timedelta(seconds=40))
    assert found.rows == 1000
    assert found.reason.endswith("in 10 s of the 10 s that the upstream's retention leaves")


def test_pace_bounds_a_chunk_to_the_target():
    asked = AskedRate(rate_limit="auto", max_rows_per_second=10)
    assert chosen(epoch(1000, 10), asked=asked).rows == 600


def test_the_first_chunk_is_small_by_bytes():
    found = chosen(row_bytes=100.0)
    assert found.rows == 629_145
    assert found.reason == "because no speed is measured yet; it begins with about 60.0 MiB of the upstream"
    assert chosen().rows == found.rows, "a row of unknown size counts as 100 bytes"


def test_without_a_new_measurement_the_limit_stays():
    """While the strategy prepares its tables, a job is paused, or a log is replayed."""
    assert chosen(held=70).rows == 70
    assert "as before" in chosen(held=70).reason


# --- what was measured ----------------------------------------------------------------------------


def log(*rows, **changes):
    barriers = [barrier_of(n, **changes) for n in range(1, len(rows) + 1)]
    return barriers, [commit_of(b, snapshot_read_row_count=r) for b, r in zip(barriers, rows, strict=True)]


def test_the_newest_epochs_that_read_history_are_measured():
    barriers, commits = log(5, 0, *range(10, 17))
    found = measured_epochs(barriers, commits, parallelism=1)
    assert [each.rows for each in found] == [12, 13, 14, 15, 16]


def test_a_repair_and_the_waits_are_not_the_epochs_own_work():
    barrier = barrier_of(1, rate_limit=70)
    seconds = {"check": 1.0, "changes": 2.0, "repair": 9.0, "chunk": 4.0}
    commit = commit_of(barrier, snapshot_read_row_count=60, seconds=seconds, load=LATE)
    (found,) = measured_epochs([barrier], [commit], parallelism=1)
    assert found == epoch(60, 5.0, limit=70, changes_seconds=2.0, load=LATE)
    assert found.seconds == 7.0


@pytest.mark.parametrize("changes", [{"given_up": True}, {"seconds": {}}, {"seconds": {"changes": 3.0}}])
def test_an_epoch_that_says_nothing_about_its_chunk_is_left_out(changes):
    barriers, (commit,) = log(5)
    assert measured_epochs(barriers, [commit.model_copy(update=changes)], parallelism=1) == []


def test_after_a_rescale_only_epochs_of_the_new_parallelism_count():
    """As soon as there is one."""
    (one, two), commits = log(5, 6)
    assert [each.rows for each in measured_epochs([one, two], commits, parallelism=4)] == [5, 6]
    two = two.model_copy(update={"parallelism": 4})
    assert [each.rows for each in measured_epochs([one, two], commits, parallelism=4)] == [6]


# --- how many epochs ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "first", "steady", "epochs"),
    [(0, 10, 80, 0), (10, 10, 80, 1), (11, 10, 80, 2), (70, 10, 80, 3), (150, 10, 80, 4), (100, 50, 10, 2)],
)
def test_how_many_epochs_it_takes_if_the_limit_doubles(rows, first, steady, epochs):
    assert epochs_for(rows, first=first, steady=steady) == epochs


def test_a_measured_epoch_without_a_limit_counts_by_its_rows():
    assert chosen(replace(epoch(1000, 1), limit=None)).rows == 2000
