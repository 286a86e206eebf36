"""What the views of a case must have, from a consumer and from the producer's account."""

from __future__ import annotations

from airflow_backfill_provider.jobs.verification.verifier import compare_now
from faults.campaign import WrongError
from faults.kafka.jobs import TopicJob
from faults.kafka.writer import Writer
from tests.integration.kafka.producers import Records, consumed
from tests.kafka_broker import KafkaBroker


class Truth:
    """
    Compares the views of a case.

    :param is_compacted: whether records may go before a job has read them.
    """

    def __init__(self, broker: KafkaBroker, writer: Writer, *, is_compacted: bool) -> None:
        self._broker = broker
        self._writer = writer
        self._is_compacted = is_compacted
        self._seen: Records = {}
        self.checks = 0

    def look(self) -> Records:
        """Read the committed records that the topic has now, and remember them."""
        ends = dict.fromkeys(range(self._writer.partitions), 1)
        left = consumed(self._broker.servers(), self._writer.topic, ends)
        self._seen |= left
        return left

    def require_consistent(self, job: TopicJob) -> None:
        """
        Compare a view after an epoch: of each partition, it has all records up to the last one that it has.

        :raises WrongError: with what differs.
        """
        self.checks += 1
        found = job.found()
        # Read afterwards, so that all that the epoch has read can be seen.
        self.look()
        last: dict[int, int] = {}
        for partition, offset in found:
            last[partition] = max(last.get(partition, -1), offset)
        read = {place: value for place, value in self._seen.items() if place[1] <= last.get(place[0], -1)}
        self._compare(job, read, found, may_lack=self._is_compacted)

    def require_right(self, job: TopicJob) -> None:
        """
        Compare a view that has nothing left to read, while the producer pauses.

        :raises WrongError: with what differs.
        """
        self.checks += 1
        found = job.found()
        # What the topic has after the epochs it had before.
        left = self.look()
        self._compare(job, left if self._is_compacted else self._seen, found, may_lack=False)
        doubtful = {place for place in found if place in self._writer.aborted}
        if doubtful:
            raise WrongError(f"I1: records of aborted transactions are in the view: {sorted(doubtful)[:5]}")
        if not self._is_compacted:
            lost = {place for place in self._writer.committed if place not in self._seen}
            if lost:
                raise WrongError(f"the consumer of the case lacks records: {sorted(lost)[:5]}")
        outcome = compare_now(job.backfill, job.engine)
        if not outcome.equal:
            raise WrongError(f"verification: {outcome}")

    def forget(self) -> None:
        """Forget all records: the topic was deleted, or what it removed will not be read again."""
        self._seen = {}

    def _compare(self, job: TopicJob, records: Records, found: Records, *, may_lack: bool) -> None:
        """
        Compare records with what a view has; it may have more of a compacted topic.

        :param may_lack: whether records may be missing, because they were removed before they were read.
        """
        known = {**self._seen, **self._writer.committed, **self._writer.unknown}
        wanted = job.expected(records)
        missing = {} if may_lack else {place: value for place, value in wanted.items() if place not in found}
        strange = {
            place: value
            for place, value in found.items()
            if (place not in wanted and not self._is_compacted)
            or place not in known
            or job.expected({place: known[place]}) != {place: value}
        }
        if missing or strange:
            raise WrongError(
                f"I1: {len(missing)} records are missing, {len(strange)} differ or are too many: "
                f"{sorted(missing)[:5]}, {sorted(strange)[:5]}"
            )
