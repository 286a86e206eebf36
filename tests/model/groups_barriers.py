"""
What each epoch of a view of groups is given: its window, its chunk, and which changes it applies.

Under ``every_epoch`` an epoch applies the changes of its window. Under ``on_finish`` all chunks are of V0 and changes
wait. Once everything is read, the windows after V0 are replayed; or the epoch of the last chunk takes them in, too:
first the chunk, as of V0, and then the changes, both by the new position.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

from tests.model.groups_job import Job
from tests.model.groups_scan import READ, Barrier, Position, next_chunk


class Barriers:
    """The barriers of a job, each once the one before is committed. They never end: a finished view is kept fresh."""

    def __init__(self, random: Random, job: Job) -> None:
        self._random, self.job = random, job
        self.longest = 3
        """The length of the longest window."""
        self._visibility = job.strategy.visibility
        self._start = self._waiting_after = job.base
        self._is_published = self._visibility == "every_epoch"
        self._in_one = random.random() < 0.5  # the epoch of the last chunk publishes
        self._replays = random.randint(0, 2)
        self._read_at: tuple[tuple[int, Position, int], ...] = ()

    def next(self) -> Barrier:
        """Pin the next barrier."""
        barrier = self._window()
        if not self._is_published:
            barrier = self._waiting(barrier) if self._visibility == "on_finish" else self._moving(barrier)
        self._start = max(self._start, barrier.end)
        return barrier

    def _window(self) -> Barrier:
        job, random = self.job, self._random
        before = after = job.positions
        was_complete = all(position == READ for position in before)
        end = min(job.upstream.latest, self._start + random.randint(0, self.longest))
        is_steady = was_complete and self._is_published
        in_one = is_steady or job.protocol.hidden_commits == "one"
        barrier = Barrier(
            epoch=job.epoch + 1,
            start=self._start,
            end=end,
            before=before,
            after=after,
            filter_by=before,
            changes_after=self._start,
            arranged_up_to=self._start,
            is_arranged=job.keeps_arrangement,
            applies=True,
            publishes=self._is_published,
            is_steady=is_steady,
            parts=1 if is_steady else random.randint(1, job.scan.vnodes),
            commits="one" if in_one else random.choice(("one", "chunk apart", "removal apart")),
            since=job.since,
        )
        if was_complete or random.random() < 0.1:  # paused: no chunk, but changes are applied
            return barrier
        after, planned = next_chunk(random, job.scan, job.rows_to_plan(barrier), before)
        return replace(barrier, after=after, planned=planned)

    def _waiting(self, barrier: Barrier) -> Barrier:
        was_complete = all(position == READ for position in barrier.before)
        after_base = {"changes_after": self._waiting_after, "arranged_up_to": self._waiting_after}
        if not was_complete and not (self._in_one and barrier.is_complete):
            return replace(barrier, **after_base, is_arranged=False, applies=False, chunk_at_base=True)
        end = barrier.end
        if was_complete and self._replays:
            self._replays -= 1
            end = self._random.randint(self._waiting_after, end)
        else:
            self._is_published = True
        self._waiting_after = end
        return replace(
            barrier,
            **after_base,
            end=end,
            filter_by=barrier.after,
            chunk_at_base=not was_complete,
            publishes=self._is_published,
        )

    def _moving(self, barrier: Barrier) -> Barrier:
        moved = zip(barrier.before, barrier.after, strict=True)
        self._read_at += tuple((vnode, new, barrier.end) for vnode, (old, new) in enumerate(moved) if new != old)
        barrier = replace(barrier, changes_after=self._waiting_after, applies=False)
        was_complete = all(position == READ for position in barrier.before)
        if not barrier.is_complete or not (was_complete or self._in_one):
            return barrier
        self._is_published = True
        return replace(barrier, applies=True, publishes=True, filter_by=barrier.after, read_at=self._read_at)
