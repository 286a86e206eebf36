"""Which files the next epoch reads, and how far the log is replayed."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from airflow_backfill_provider.core.epoch.replay import MOST_EPOCHS, ReplayEpoch
from airflow_backfill_provider.core.scan.keys import EVERYTHING, KeyRange
from airflow_backfill_provider.core.scan.offset import HistoryPoint, Offset
from airflow_backfill_provider.core.scan.progress import BackfillState, InProgress
from airflow_backfill_provider.sources.numbered_files import NumberedFile
from airflow_backfill_provider.strategies import KINDS
from airflow_backfill_provider.strategies.base import ChunkInputs
from airflow_backfill_provider.strategies.snapshot.next_chunk import next_files, replay_end
from airflow_backfill_provider.strategies.snapshot.scan import FILES_END
from tests.builders import job_of, settings_of

V0, LATER = Offset(4), Offset(9)


def file(stored, live=None):
    return NumberedFile(path="f", stored=stored, live=stored if live is None else live, is_exact=True, size=10 * stored)


@dataclass
class Upstream:
    """An upstream of files, at whose history nothing else is asked for."""

    counts: tuple[NumberedFile, ...]
    asked: list[dict[str, object]] = field(default_factory=list)
    location: str = "/lake/orders"

    @property
    def numbered_files(self):
        return self

    def files(self, offset):
        assert offset == V0
        return self.counts

    def few_changes(self, after, newest, *, rows, steps):
        self.asked.append({"rows": rows, "steps": steps})
        return Offset(after.number + 1)


def settings(rate_limit, **changes):
    job = job_of(strategy="snapshot", **changes.pop("job", {}))
    return settings_of(job, strategy="snapshot", start=HistoryPoint(offset=V0), rate_limit=rate_limit, **changes)


def plan(*files, rate_limit, position=None, newest=LATER, **changes):
    wanted = settings(rate_limit, **changes)
    state = wanted.scan.initial(0)
    if position is not None:
        state = BackfillState(1, (InProgress(position, 1),) * len(state.vnodes))
    inputs = ChunkInputs(
        settings=wanted,
        rate_limit=wanted.rate_limit,
        state=state,
        upstream=Upstream(files),
        kept_up_to=V0,
        offset=V0,
        newest=newest,
        previous=None,
        storage_options=None,
    )
    return next_files(inputs)


TEN = [file(10)] * 4


@pytest.mark.parametrize(
    ("rate_limit", "position", "covered", "rows"),
    [
        (10, None, KeyRange(None, (1, -1)), 10),
        (15, None, KeyRange(None, (1, 4)), 15),
        (15, (1, 4), KeyRange((1, 4), (3, -1)), 15),
        # The rest of the limit would only open one more file.
        (21, None, KeyRange(None, (2, -1)), 20),
        (3, None, KeyRange(None, (0, 2)), 3),
        (3, (0, 8), KeyRange((0, 8), (1, 1)), 3),
        (1, (0, 8), KeyRange((0, 8), (1, -1)), 1),
        (100, (3, -1), KeyRange((3, -1), FILES_END), 10),
        (None, None, KeyRange(None, FILES_END), 40),
    ],
)
def test_a_chunk_is_a_run_of_files_that_is_cut_where_the_rate_limit_asks_for_it(rate_limit, position, covered, rows):
    """I4: a cap, and filled at least to nine tenths."""
    planned = plan(*TEN, rate_limit=rate_limit, position=position)
    assert (planned.row_count, planned.ranges) == (40, (covered,))
    assert planned.parts[0].rows == rows


def test_the_last_file_ends_the_backfill_only_if_nothing_has_changed_since():
    assert plan(*TEN, rate_limit=None, newest=V0).ranges == (EVERYTHING,)
    assert plan(rate_limit=None, newest=V0).ranges == (EVERYTHING,), "an empty upstream"
    assert plan(rate_limit=7).ranges == (KeyRange(None, FILES_END),)
    assert plan(*TEN, rate_limit=5, position=FILES_END, newest=V0).ranges == (KeyRange(FILES_END, None),)
    assert plan(*TEN, rate_limit=5, position=FILES_END).parts == (), "a step of the replay"


def test_deleted_rows_do_not_count_and_a_begun_file_counts_as_full():
    files = [file(10, 3), file(10, 0), file(10, 9)]
    assert plan(*files, rate_limit=4).ranges == (KeyRange(None, (2, 0)),)
    assert plan(*files, rate_limit=4).row_count == 12
    assert plan(*files, rate_limit=4, position=(0, 1)).ranges == (KeyRange((0, 1), (2, 0)),)


def test_a_job_over_some_vnodes_opens_more_files_for_its_rows():
    planned = plan(*TEN, rate_limit=5, job={"restrict_to": {"vnodes": [1]}})
    assert (planned.row_count, planned.ranges, planned.parts[0].rows) == (10, (KeyRange(None, (2, -1)),), 4)


def test_nothing_is_read_while_the_job_is_paused():
    assert plan(*TEN, rate_limit=5, paused=True).parts == ()
    assert plan(*TEN, rate_limit=0).row_count == 40


@pytest.mark.parametrize(
    ("files", "parallelism", "parts"),
    [
        (TEN, 2, [KeyRange(None, (2, -1)), KeyRange((2, -1), FILES_END)]),
        (TEN, 3, [KeyRange(None, (1, -1)), KeyRange((1, -1), (3, -1)), KeyRange((3, -1), FILES_END)]),
        ([file(40)], 4, [KeyRange(None, FILES_END)]),
        ([file(30), file(1), file(1)], 2, [KeyRange(None, (1, -1)), KeyRange((1, -1), FILES_END)]),
    ],
)
def test_task_runs_share_the_chunk_at_the_bounds_of_files(files, parallelism, parts):
    planned = plan(*files, rate_limit=None, parallelism=parallelism)
    assert list(planned.ranges) == parts
    assert len(planned.parts) == len(parts)


def test_a_warning_says_that_files_are_opened_again_and_again():
    assert plan(file(1000), rate_limit=100).warnings[0].startswith("the largest file has 1000 rows, and each epoch")
    assert plan(file(400), rate_limit=100).warnings == ()


@pytest.mark.parametrize(("position", "number"), [(None, None), ((2, 1), None), (FILES_END, 1)])
def test_the_replay_begins_once_all_files_are_read(position, number):
    state = settings(5).scan.initial(0)
    if position is not None:
        state = BackfillState(1, (InProgress(position, 1),) * len(state.vnodes))
    replay = KINDS.named("snapshot").replay(state, None, 36)
    assert (replay and replay.number) == number


@pytest.mark.parametrize(
    ("number", "rate_limit", "end", "asked"),
    [
        (None, 5, V0, []),
        (None, None, V0, []),
        (1, None, Offset(40), []),
        (1, 5, Offset(5), [{"rows": 5, "steps": 4}]),
        (1, 0, Offset(5), [{"rows": 0, "steps": 4}]),
        (9, 5, Offset(5), [{"rows": 5, "steps": 18}]),
        (MOST_EPOCHS, 5, Offset(40), []),
        (MOST_EPOCHS + 3, 0, Offset(40), []),
    ],
)
def test_the_window_stays_at_the_pinned_version_until_all_files_are_read(number, rate_limit, end, asked):
    """I4: then each epoch covers a growing share of what is left, and the tenth all of it."""
    upstream = Upstream(())
    replay = None if number is None else ReplayEpoch(number=number, backlog=36)
    assert replay_end(replay, upstream, V0, Offset(40), rate_limit=rate_limit) == end
    assert upstream.asked == asked
