"""Plays a case: draws a topic, lets a producer write to it, runs epochs of the jobs under faults, and ends it."""

from __future__ import annotations

import itertools
import random
import time
from collections import Counter
from pathlib import Path

from pyspark.sql import SparkSession

from airflow_backfill_provider.core.errors import UpstreamReplacedError
from airflow_backfill_provider.core.job.sql import quote
from airflow_backfill_provider.jobs import mutations
from airflow_backfill_provider.jobs.verification.verifier import compare_now
from faults.campaign import Outcome, WrongError
from faults.kafka.drawing import a_topic
from faults.kafka.harm import Harm
from faults.kafka.jobs import TopicJob
from faults.kafka.truth import Truth
from faults.kafka.writer import Writer
from tests.connect_server import address_of
from tests.kafka_broker import KafkaBroker

ROUNDS = 4
MOST_EPOCHS = 300

_numbers = itertools.count()


class Game:
    """
    A case.

    :param case: its number; every second one has records that no job can read.
    :param chance: decides on everything else.
    :param broker: the broker of all cases.
    :param folder: a folder for the views.
    """

    def __init__(
        self, case: int, chance: random.Random, broker: KafkaBroker, spark: SparkSession, folder: Path
    ) -> None:
        self.chance = chance
        self.broker = broker
        self.topic = a_topic(case, chance)
        self.name = f"case_{next(_numbers)}"
        self.done: Counter[str] = Counter()
        self.jobs = [
            TopicJob(spark, folder / str(number), f"{self.name}_{number}", self.name, drawn)
            for number, drawn in enumerate(self.topic.jobs)
        ]
        self.remote = address_of(spark)

    def play(self) -> Outcome:
        """Play the case."""
        for job in self.jobs:
            Path(job.folder).mkdir()
        self._make_topic()
        self.writer = self._writer()
        self.truth = Truth(self.broker, self.writer, is_compacted=self.topic.is_compacted)
        self.harm = Harm(self.chance, self.broker, self.remote, self.done)
        try:
            self.writer.fill(6)
            self.writer.start()
            self._play()
        except Exception as error:
            error.add_note(f"drawn: {self.topic}; done: {dict(self.done)}")
            raise
        finally:
            self.writer.stop()
            self.broker.delete_topic(self.name)
        return Outcome(checks=self.truth.checks, about=f"{self._about()}: {dict(self.done)}")

    def _about(self) -> str:
        topic = self.topic
        compacted = "compacted; " if topic.is_compacted else ""
        return f"{topic.partitions} partitions; {compacted}{len(topic.jobs)} jobs; {len(self.writer.committed)} records"

    def _make_topic(self) -> None:
        # A broker compacts by the times of records, so these are right where it does.
        settings = self.topic.settings or {"message_timestamp_after_max_ms": str(2**63 - 1)}
        self.broker.create_topic(self.name, self.topic.partitions, retention_ms="-1", **settings)

    def _writer(self) -> Writer:
        seed = str(self.chance.random())
        topic = self.topic
        any_time = not topic.is_compacted
        return Writer(seed, self.broker, self.name, topic.partitions, topic.garbage, any_time=any_time)

    def _play(self) -> None:
        self.jobs[0].begin()
        self.writer.go()
        self._run_some(ROUNDS)
        self._add_partition()
        if not self.jobs[-1].is_created:
            self.jobs[-1].begin()
        self._run_some(ROUNDS)
        self._require_right()
        self._remove_records()
        self.writer.go()
        self._run_some(3)
        self._require_right()
        ending = self.chance.choice([self._repair, self._repair_what_differs, self._rebuild, self._recreate])
        self.done[ending.__name__.strip("_")] += 1
        ending()

    # -------------------------------------------------------------------------------------------------- epochs

    def _run_some(self, count: int) -> None:
        for _ in range(count):
            job = self.chance.choice([job for job in self.jobs if job.is_created])
            self._steer(job)
            self._run(job)

    def _steer(self, job: TopicJob) -> None:
        """Change the settings of a job."""
        store, by = job.backfill.store, "tester"
        match self.chance.randrange(8):
            case 0:
                mutations.pause_job(store=store, requested_by=by)
            case 1 | 2:
                mutations.resume_job(store=store, requested_by=by)
            case 3 | 4:
                mutations.throttle_job(self.chance.choice([0, 1, 7, 50, None]), store=store, requested_by=by)
            case 5:
                most = min(3, job.backfill.job.vnode_count)
                mutations.rescale_job(self.chance.randint(1, most), store=store, requested_by=by)
            case _:
                return

    def _run(self, job: TopicJob) -> None:
        """Attempt an epoch under a fault, and then until it is committed; compare the view."""
        self.harm.draw()(job)
        self.harm.until_committed(job)
        self.truth.require_consistent(job)

    def _require_right(self) -> None:
        """Pause the producer, run the jobs to their ends, and compare."""
        self.writer.pause()
        for job in self.jobs:
            mutations.resume_job(store=job.backfill.store, requested_by="tester")
            mutations.throttle_job(None, store=job.backfill.store, requested_by="tester")
            self._finish(job)
            self.truth.require_right(job)

    def _finish(self, job: TopicJob) -> None:
        quiet = 0
        for _ in range(MOST_EPOCHS):
            # A broker ends a transaction after it has said so.
            quiet = quiet + 1 if job.epoch() is None else 0
            if quiet == 3:
                return
            time.sleep(0.3 * min(quiet, 1))
        raise WrongError(f"I4: there is still something to do after {MOST_EPOCHS} epochs")

    # -------------------------------------------------------------------------------------------------- events

    def _add_partition(self) -> None:
        self.broker.add_partitions(self.name, self.writer.partitions + 1)
        # The producer learns of it by itself.
        time.sleep(1)
        self.writer.partitions += 1

    def _remove_records(self) -> None:
        """Remove old records, as retention does; all jobs have read them."""
        # A broker removes none of a topic that it compacts.
        if self.chance.random() < 0.5 or self.topic.is_compacted:
            return
        self.done["removed"] += 1
        left = self.truth.look()
        for partition in range(self.writer.partitions):
            last = max((offset for at, offset in left if at == partition), default=0)
            self.broker.delete_records(self.name, self.chance.randint(0, last), partition)

    def _repair(self) -> None:
        """Repair the whole view under a fault: it stays as it is, with what the topic has removed."""
        for job in self.jobs:
            before = job.found()
            every = f"0-{job.backfill.job.vnode_count - 1}"
            mutations.repair_job(store=job.backfill.store, vnodes=[every], requested_by="tester")
            self._run(job)
            self._finish(job)
            if job.found() != before:
                raise WrongError("a repair changed a right view")
            self.truth.require_right(job)

    def _repair_what_differs(self) -> None:
        """Remove a row behind a job's back: found, and written again."""
        job = self.jobs[0]
        left, found = job.expected(self.truth.look()), job.found()
        rows = [place for place in left if job.drawn.query.has(*place) and place in found]
        if not rows:
            return
        place = self.chance.choice(sorted(rows))
        partition, offset = map(quote, job.drawn.query.key)
        where = f"{partition} = {place[0]} AND {offset} = {place[1]}"
        removed = job.view().filter(where).count()
        job.sql(f"DELETE FROM delta.{quote(job.view_path)} WHERE {where}")
        outcome = compare_now(job.backfill, job.engine)
        is_gone = place not in self.truth.look()
        if removed and outcome.equal and not is_gone:
            raise WrongError(f"a missing record was not found: {outcome}")
        mutations.repair_job(store=job.backfill.store, keys=[list(place)], requested_by="tester")
        self._run(job)
        self._finish(job)
        self.truth.require_right(job)

    def _rebuild(self) -> None:
        """Rebuild the jobs while the producer writes: they have what the topic still has."""
        self.truth.forget()
        self.truth.look()
        self.writer.go()
        for job in self.jobs:
            job.rebuild(**job.fields)
        self._run_some(4)
        self._require_right()

    def _recreate(self) -> None:
        """Delete the topic and make it again: refused, and right again after a rebuild."""
        self.writer.stop()
        self.broker.delete_topic(self.name)
        time.sleep(1)
        self._make_topic()
        self.writer = self._writer()
        self.truth = Truth(self.broker, self.writer, is_compacted=self.topic.is_compacted)
        self.writer.fill(3)
        self.writer.start()
        for job in self.jobs:
            try:
                job.epoch()
            except UpstreamReplacedError:
                continue
            raise WrongError("a topic that was made anew was not refused")
        self._rebuild()
