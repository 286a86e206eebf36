"""Epoch by epoch, every place of every split is read once: by a chunk before its vnode is completed, or as a change."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.epoch.settings import JobSettings
from airflow_backfill_provider.core.scan.keys import KeyRange
from airflow_backfill_provider.core.scan.offset import HistoryPoint
from airflow_backfill_provider.core.scan.progress import BackfillState, Completed
from airflow_backfill_provider.core.scan.spark_hash import vnode_of_number
from airflow_backfill_provider.core.scan.splits import SplitStage, split_progress
from airflow_backfill_provider.sources.split_offsets import offset_of
from airflow_backfill_provider.strategies.base import ChunkInputs, NextChunk
from airflow_backfill_provider.strategies.source.chunks import SplitBounds, places_of
from airflow_backfill_provider.strategies.source.next_chunk import next_splits
from airflow_backfill_provider.strategies.vnode_scan import VnodeScan
from tests.builders import barrier_of, job_of, settings_of
from tests.unit.strategies.source.in_memory import Appended, NumberedSplits

Place = tuple[int, int]
"""A split, and a place in it."""


@dataclass(frozen=True)
class Event:
    """What happens before an epoch, and the settings that it runs with."""

    appended: tuple[int, ...]
    added: int
    rate_limit: int | None
    parallelism: int


EVENTS = st.builds(
    Event,
    appended=st.lists(st.integers(0, 6), max_size=5).map(tuple),
    added=st.sampled_from([0, 0, 0, 1, 3]),
    rate_limit=st.none() | st.integers(0, 9),
    parallelism=st.sampled_from([1, 1, 2, 3]),
)
"""One event in a history."""


@dataclass
class History:
    """
    A job over splits, and what it has read.

    :param begins: of each split the first place that is left when the job is created.
    :param ends: of each split the place after its last row.
    """

    vnode_count: int
    begins: list[int]
    ends: list[int]
    chunks: Counter[Place] = field(default_factory=Counter)
    changes: Counter[Place] = field(default_factory=Counter)
    completed_at: dict[int, int] = field(default_factory=dict)
    previous: Barrier | None = None

    def __post_init__(self) -> None:
        self.base = settings_of(
            job_of(
                upstream={"kafka": {"connection": "events", "topic": "orders"}},
                query="SELECT partition, offset FROM upstream",
                vnode_count=self.vnode_count,
            ),
            strategy="source",
            types={"partition": "integer", "offset": "long"},
            start=HistoryPoint(offset=offset_of(dict(enumerate(self.begins[: len(self.ends)])))),
        )
        scan = self.base.scan
        assert isinstance(scan, VnodeScan)
        self.scan = scan
        self.state = self.scan.initial(0)
        self.read_up_to = list(self.begins)

    def play(self, event: Event) -> None:
        """Append, and run one epoch."""
        for split, count in enumerate(event.appended):
            self.ends[split % len(self.ends)] += count
        self.ends += [0] * event.added
        self.epoch(self.base.model_copy(update={"rate_limit": event.rate_limit, "parallelism": event.parallelism}))

    def epoch(self, job: JobSettings) -> None:
        """Plan and read an epoch, and check all that must hold of it alone."""
        before, plan = self.state, self.plan(job)
        ranges = plan.ranges
        whole = SplitBounds(begins=dict(enumerate(self.begins)), ends=dict(enumerate(self.ends)))
        window = SplitBounds(begins=dict(enumerate(self.read_up_to)), ends=whole.ends)
        chunk = [place for part in places_of(self.scan, ranges, whole) for place in _places(part)]
        changes = [place for part in places_of(self.scan, self.scan.read(before), window) for place in _places(part)]
        rows = Counter(vnode_of_number(split, self.vnode_count) for split, _ in chunk)
        self.state = self.scan.advanced(before, epoch=before.epoch + 1, ranges=ranges, rows=rows)
        self.chunks.update(chunk)
        self.changes.update(changes)
        self.read_up_to = list(self.ends)
        self.previous = barrier_of(parallelism=job.parallelism, vnode_ranges=plan.vnode_ranges)

        before.require_successor(self.state, self.scan.order)
        assert job.rate_limit is None or len(chunk) <= job.rate_limit
        assert sum(part.rows for part in plan.parts) == len(chunk)
        assert (not job.reads_snapshot) or before.completed or self.state != before, "I4: no progress"
        assert not any(rows[vnode] for vnode in _completed(before)), "a completed vnode was read again"
        self.assert_fair(plan, rows)
        self.assert_truth()
        for split, end in enumerate(self.ends):
            if vnode_of_number(split, self.vnode_count) in _completed(self.state) - _completed(before):
                self.completed_at[split] = end

    def plan(self, job: JobSettings) -> NextChunk:
        """Return what the next epoch reads; asked again, the plan is the same (I2)."""
        if self.state.completed:
            return NextChunk(0)
        offset = offset_of(dict(enumerate(self.ends)))
        inputs = ChunkInputs(
            settings=job,
            rate_limit=job.rate_limit,
            state=self.state,
            upstream=Appended(NumberedSplits(*self.begins)),
            kept_up_to=offset_of(dict(enumerate(self.read_up_to))),
            offset=offset,
            newest=offset,
            previous=self.previous,
            storage_options=None,
        )
        plan = next_splits(inputs, self.scan)
        assert plan == next_splits(inputs, self.scan)
        return plan

    def assert_fair(self, plan: NextChunk, rows: Counter[int]) -> None:
        """In one epoch, a task run reads about the same number of rows of each vnode that it does not complete."""
        if not plan.parts:
            return
        for first, last in plan.vnode_ranges:
            unfinished = [rows[vnode] for vnode in range(first, last + 1) if vnode not in _completed(self.state)]
            assert not unfinished or max(unfinished) - min(unfinished) <= 1
            assert not unfinished or max(rows[vnode] for vnode in range(first, last + 1)) <= min(unfinished) + 1
        read = [sum(rows[vnode] for vnode in range(first, last + 1)) for first, last in plan.vnode_ranges]
        shortened = [
            count
            for count, (first, last) in zip(read, plan.vnode_ranges, strict=True)
            if any(vnode not in _completed(self.state) for vnode in range(first, last + 1))
        ]
        assert not shortened or max(read) <= min(shortened) + 1

    def assert_truth(self) -> None:
        """I1: what was read is what lies at or before the positions, each place once."""
        found = self.chunks + self.changes
        ends = dict(enumerate(self.ends))
        progress = split_progress(self.state, begins=dict(enumerate(self.begins)), live_from={}, ends=ends)
        assert found == Counter(place for part in progress.values() for place in _places(part.read))
        completed = _completed(self.state)
        for split, part in progress.items():
            is_finished = vnode_of_number(split, self.vnode_count) in completed
            assert (part.stage is SplitStage.FINISHED) == is_finished

    def finish(self) -> None:
        """Run epochs until all is read; nothing is appended any more."""
        left = sum(self.ends) - sum(self.begins)
        for _ in range(left // 3 + 2):
            if self.state.completed:
                break
            self.epoch(self.base.model_copy(update={"rate_limit": 3}))
        assert self.state.completed, "I4: one epoch for each three rows is enough"
        self.epoch(self.base)


def _completed(state: BackfillState) -> set[int]:
    return {vnode for vnode, progress in enumerate(state.vnodes) if isinstance(progress, Completed)}


def _places(part: object) -> list[Place]:
    split, begin, end = (getattr(part, name) for name in ("split", "begin", "end"))
    return [(split, place) for place in range(begin, end)]


@st.composite
def histories(draw: st.DrawFn) -> History:
    """Draw splits at the moment at which a job is created."""
    begins = draw(st.lists(st.integers(0, 3), min_size=1, max_size=6))
    rows = draw(st.lists(st.integers(0, 12), min_size=len(begins), max_size=len(begins)))
    ends = [begin + count for begin, count in zip(begins, rows, strict=True)]
    return History(draw(st.integers(1, 5)), [*begins, *[0] * 60], ends)


@given(histories(), st.lists(EVENTS, max_size=8))
def test_every_place_is_read_once(history: History, events: list[Event]) -> None:
    """I1 to I4, whatever is appended or added, and however the rate limit and the parallelism change."""
    for event in events:
        history.play(event)
    history.finish()
    everything = [(split, p) for split, end in enumerate(history.ends) for p in range(history.begins[split], end)]
    assert history.chunks + history.changes == Counter(everything)
    assert max([*history.chunks.values(), *history.changes.values()], default=1) == 1


@given(histories(), st.lists(EVENTS, max_size=8))
def test_what_is_appended_to_a_completed_vnode_is_left_to_the_changes(history: History, events: list[Event]) -> None:
    """A split that is alone in its vnode is read by chunks exactly up to the end at which its vnode is completed."""
    for event in events:
        history.play(event)
    history.finish()
    vnodes = Counter(vnode_of_number(split, history.vnode_count) for split in range(len(history.ends)))
    for split, end in enumerate(history.ends):
        if vnodes[vnode_of_number(split, history.vnode_count)] > 1:
            continue
        completed_at = history.completed_at.get(split, 0)
        assert {place for s, place in history.chunks if s == split} == set(range(history.begins[split], completed_at))
        assert {place for s, place in history.changes if s == split} == set(range(completed_at, end))


@given(histories(), st.integers(1, 9))
def test_all_vnodes_are_read_in_one_range_if_all_of_them_fit(history: History, spare: int) -> None:
    """Semantics 4: the last chunk has no upper bound."""
    left = sum(history.ends) - sum(history.begins[: len(history.ends)])
    plan = history.plan(history.base.model_copy(update={"rate_limit": left + spare}))
    assert plan.ranges == (KeyRange(None, None),)
