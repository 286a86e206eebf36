"""The replay of ``snapshot`` ends, whatever arrives meanwhile and whatever writers say about it."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import accumulate

from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.epoch.failures import GivenUp
from airflow_backfill_provider.core.epoch.replay import MOST_EPOCHS
from airflow_backfill_provider.core.scan.offset import HistoryPoint, Offset
from airflow_backfill_provider.core.scan.progress import BackfillState, InProgress
from airflow_backfill_provider.strategies import KINDS
from airflow_backfill_provider.strategies.base import ChunkInputs
from airflow_backfill_provider.strategies.snapshot.scan import FILES_END
from tests.builders import NOW, barrier_of, job_of, settings_of, window_of

V0 = Offset(0)
FAULT = GivenUp(error="E", message="m", by="x", at=NOW, to_offset=Offset(1), settings_sequence=1)
COUNTS = st.sampled_from([0, 0, 1, 7, 40, 200_412, 10**15])
"""How many rows a commit is said to have changed: nothing of it need be true."""


@dataclass(frozen=True)
class Event:
    """
    What happens before and in an epoch.

    :param arrived: what each commit since the last epoch is said to have changed.
    """

    arrived: tuple[int, ...]
    rate_limit: int
    paused: bool
    given_up: bool


EVENTS = st.builds(
    Event,
    arrived=st.lists(COUNTS, max_size=12).map(tuple),
    rate_limit=st.integers(1, 50),
    paused=st.sampled_from([False, False, False, True]),
    given_up=st.sampled_from([False, False, False, True]),
)
STEADY = st.builds(
    lambda speed, growth, count, limit: [
        Event((count,) * (speed + growth * epoch), limit, paused=False, given_up=False) for epoch in range(40)
    ],
    speed=st.integers(1, 20),
    growth=st.integers(0, 20),
    count=COUNTS,
    limit=st.integers(1, 50),
)
"""Writers of one speed, or of one that grows."""


@dataclass
class Replay:
    """A job that has read all files, and the commits behind the pinned version."""

    counts: list[int] = field(default_factory=list)
    after: Offset = V0
    previous: Barrier | None = None
    finished: bool = False

    @property
    def numbered_files(self) -> Replay:
        return self

    def few_changes(self, after: Offset, newest: Offset, *, rows: int, steps: int) -> Offset:
        first, last = after.number or 0, newest.number or 0
        fitting = sum(total <= rows for total in accumulate(self.counts[first:last]))
        return Offset(min(first + max(fitting, steps, 1), last))

    def epoch(self, event: Event) -> int:
        """Plan the next epoch, as an injection does; return how many commits it takes."""
        self.counts += event.arrived
        job = settings_of(
            job_of(strategy="snapshot"),
            strategy="snapshot",
            start=HistoryPoint(offset=V0),
            rate_limit=event.rate_limit,
            paused=event.paused,
        )
        state = BackfillState(1, (InProgress(FILES_END, 1),) * job.definition.vnode_count)
        strategy, newest = KINDS.named("snapshot"), Offset(len(self.counts))
        backlog = newest.distance_from(self.after)
        replay = strategy.replay(state, self.previous, backlog)
        assert replay is not None
        assert replay == strategy.replay(state, self.previous, backlog), "a retry decides the same"
        window = self.after, newest
        end = strategy.window_end(job, state, self, *window, rate_limit=event.rate_limit, replay=replay)
        planned = strategy.next_chunk(
            ChunkInputs(
                settings=job,
                rate_limit=event.rate_limit,
                state=state,
                upstream=self,
                kept_up_to=V0,
                offset=end,
                newest=newest,
                previous=self.previous,
                storage_options=None,
            )
        )
        taken = end.distance_from(self.after)
        assert self.after <= end <= newest
        assert taken >= min(backlog, 1)
        self.finished = bool(planned.parts) and not event.given_up
        self.previous = barrier_of(
            replay=replay.number,
            upstream=window_of(from_offset=self.after, to_offset=self.after if event.given_up else end),
            given_up=FAULT if event.given_up else None,
        )
        self.after = self.after if event.given_up else end
        return taken


@given(STEADY)
def test_ten_epochs_are_enough_whatever_the_speed_of_the_writers(events):
    """I4."""
    replay = Replay(counts=[3] * 30)
    epochs = 0
    while not replay.finished:
        replay.epoch(events[epochs])
        epochs += 1
    assert epochs <= MOST_EPOCHS


@given(st.lists(EVENTS, min_size=30, max_size=30))
def test_pauses_and_epochs_that_were_given_up_only_put_the_end_off(events):
    """I4: from the tenth epoch on, and after one that was given up, the next epoch that can end the replay does."""
    replay = Replay(counts=[3] * 30)
    for number, event in enumerate(events, 1):
        takes_all = number >= MOST_EPOCHS or (replay.previous is not None and replay.previous.given_up is not None)
        replay.epoch(event)
        if replay.finished:
            return
        assert not takes_all or event.paused or event.given_up
    assert all(event.paused or event.given_up for event in events[MOST_EPOCHS:])


@settings(max_examples=50)
@given(st.integers(0, 400), st.integers(0, 20))
def test_the_last_epoch_is_not_much_larger_than_the_others(backlog, speed):
    """It takes a tenth of the first backlog, and what arrives during about three epochs."""
    replay, taken = Replay(counts=[10**6] * backlog), []
    while not replay.finished:
        taken.append(replay.epoch(Event((10**6,) * (speed if taken else 0), 1, paused=False, given_up=False)))
    assert taken[-1] <= backlog / MOST_EPOCHS + 3 * speed + MOST_EPOCHS
