"""Plays the classical executor and ours over the same splits, whatever producers, crashes and retries do meanwhile."""

from __future__ import annotations

from dataclasses import replace

from tests.model.source_classical import Backfilling, SourceCheckpoint, SourceExecutor
from tests.model.source_orchestrated import COMPLETED, Attempt, Protocol, Step, advance, created
from tests.model.source_topic import Entry, Topic, check_rows
from tests.model.truth import InvariantError

Move = tuple[str, int, int]
"""What happens, and two numbers that say where; each kind of move takes them modulo what there is."""

PRODUCER = ("append", "append", "append", "abort", "compact", "add a split")
CLASSICAL = ("deliver", "poll", "poll", "barrier", "die")
OURS = ("start", "step", "step", "step", "step", "kill")


class ClassicalSourceRun:
    """The classical executor over a topic; the live reader stands where the topic ended when the view was made."""

    def __init__(self, topic: Topic) -> None:
        splits = range(len(topic.splits))
        self.checkpoint = SourceCheckpoint({split: Backfilling() for split in splits}, dict(enumerate(topic.ends)))
        self.executor = SourceExecutor(self.checkpoint)

    def move(self, topic: Topic, kind: str, number: int) -> None:
        """Take one move."""
        split = number % len(topic.splits)
        if kind == "deliver":
            self.executor.deliver(topic, split)
        elif kind == "poll":
            self.executor.poll(topic, split)
        elif kind == "barrier":
            self.checkpoint = self.executor.on_barrier(topic)
        else:
            self.executor = SourceExecutor(self.checkpoint)

    def finish(self, topic: Topic) -> None:
        """Let both readers read all there is, and end the epoch."""
        for split, end in enumerate(topic.ends):
            for _ in range(end):
                self.executor.deliver(topic, split)
                self.executor.poll(topic, split)
        self.checkpoint = self.executor.on_barrier(topic)


class SourceRun:
    """Attempts of our epochs over a topic, which begin at any moment and may stand still for long."""

    def __init__(self, topic: Topic, vnodes: int, protocol: Protocol | None = None) -> None:
        self.protocol = protocol or Protocol()
        self.world = created(topic, vnodes)
        self.attempts: list[Attempt] = []

    def move(self, topic: Topic, kind: str, number: int, other: int) -> None:
        """Take one move."""
        self.world = replace(self.world, topic=topic)
        if kind == "start":
            self.attempts.append(Attempt(limit=other))
        elif self.attempts and kind == "kill":
            self.attempts.pop(number % len(self.attempts))
        elif self.attempts:
            index = number % len(self.attempts)
            self.world, attempt = advance(self.protocol, self.world, self.attempts[index])
            self.attempts[index : index + 1] = [] if attempt.next is Step.DONE else [attempt]

    def run(self, limit: int) -> bool:
        """Run one attempt to its end; return whether it had something to do."""
        attempt = Attempt(limit)
        while attempt.next is not Step.DONE:
            self.world, attempt = advance(self.protocol, self.world, attempt)
        return attempt.plan is not None

    def finish(self, topic: Topic) -> None:
        """Run epochs until there is nothing to do; then let all that stand still go on."""
        self.world = replace(self.world, topic=topic)
        epochs = 0
        while self.run(2):
            epochs += 1
            if epochs > sum(topic.ends) + 3:
                raise InvariantError("I4 progress: the epochs don't come to an end")
        if any(position != COMPLETED for position in self.world.state.positions):
            raise InvariantError(f"I4 progress: {self.world.state.positions} are not completed")
        for attempt in self.attempts:
            zombie = attempt
            while zombie.next is not Step.DONE:
                self.world, zombie = advance(self.protocol, self.world, zombie)


def play(topic: Topic, vnodes: int, moves: list[Move], protocol: Protocol | None = None) -> tuple[Topic, SourceRun]:
    """Play both, and check at the end that each committed record is in both views once."""
    classical, ours = ClassicalSourceRun(topic), SourceRun(topic, vnodes, protocol)
    for kind, number, other in moves:
        split = number % len(topic.splits)
        if kind == "append":
            topic = topic.appended(split, Entry.RECORD)
        elif kind == "abort":
            topic = topic.appended(split, Entry.GAP)
        elif kind == "compact":
            topic = topic.compacted(split, other) if other < topic.ends[split] else topic
        elif kind == "add a split":
            topic = topic.with_split() if len(topic.splits) < 5 else topic
        elif kind in CLASSICAL:
            classical.move(topic, kind, number)
        else:
            ours.move(topic, kind, number, other)
    classical.finish(topic)
    ours.finish(topic)
    everything = dict(enumerate(topic.ends))
    check_rows(classical.checkpoint.view, topic, everything)
    check_rows(ours.world.view, topic, everything)
    return topic, ours
