"""
What a cluster says of a topic: its identity, its partitions, and their offsets.

Offsets are those that a reader of committed records sees: a partition ends where its oldest open transaction begins.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum, auto

from confluent_kafka import (
    OFFSET_INVALID,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AclOperation,
    ConfigResource,
    ListOffsetsResultInfo,
    OffsetSpec,
    ResourceType,
    TopicDescription,
)

from airflow_backfill_provider.core.errors import KafkaRefusedError, UpstreamNotFoundError
from airflow_backfill_provider.sources.kafka.cluster import REQUEST_SECONDS, Cluster, Session

_DENIED = frozenset({KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED})

_CLEANUP_POLICY, _COMPACT = "cleanup.policy", "compact"

LAST_MILLISECOND = 253_402_300_799_999
"""The last one of the year 9999, the last year that dates of most programs have."""

_NO_OFFSET = -1
"""The answer if no record is as young as an instant."""


class Compaction(Enum):
    """Whether compaction removes records of a topic."""

    NONE = auto()
    REMOVES = auto()
    UNKNOWN = auto()
    """The login may not ask for the topic's settings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionBounds:
    """
    The records of a partition that can be read, as ``[beginning, end)``.

    The offsets in between are not all those of records: compaction and transactions leave gaps.

    :param beginning: the offset of the oldest record that retention has left.
    :param end: the offset after the newest record of a transaction that is decided, and so of all before it.
    """

    beginning: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicState:
    """
    A topic at one moment.

    :param topic_id: another topic that is made under the name has another one.
    :param partitions: partition → its bounds.
    """

    topic_id: str
    partitions: Mapping[int, PartitionBounds]

    @property
    def beginnings(self) -> dict[int, int]:
        """Partition → the offset of its oldest record."""
        return {number: bounds.beginning for number, bounds in self.partitions.items()}

    @property
    def ends(self) -> dict[int, int]:
        """Partition → the offset after its newest record."""
        return {number: bounds.end for number, bounds in self.partitions.items()}


def instant_of(milliseconds: int) -> datetime | None:
    """
    Return the instant of a record's timestamp; ``None`` if there is none, or it lies beyond the year 9999.

    Producers set timestamps, and may take microseconds for milliseconds.
    """
    return datetime.fromtimestamp(milliseconds / 1000, UTC) if 0 <= milliseconds <= LAST_MILLISECOND else None


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic of a cluster."""

    cluster: Cluster
    name: str

    def state(self) -> TopicState:
        """
        Ask for the topic's identity, its partitions and their bounds.

        :raises UpstreamNotFoundError: if there is no such topic.
        :raises KafkaRefusedError: if the login may not read it.
        :raises KafkaUnavailableError: if the cluster does not answer.
        """
        return self.cluster.ask(self._state)

    def offsets_at(self, instant: datetime) -> Mapping[int, int]:
        """
        Ask per partition for the offset of the first record whose timestamp is an instant or later.

        :returns: partition → offset; the partition's end, if it has no such record.
        :raises UpstreamNotFoundError: if there is no such topic.
        :raises KafkaRefusedError: if the login may not read it.
        :raises KafkaUnavailableError: if the cluster does not answer.
        """
        milliseconds = max(math.ceil(instant.timestamp() * 1000), 0)
        return self.cluster.ask(lambda session: self._offsets_at(session, milliseconds))

    def compaction(self) -> Compaction:
        """
        Ask whether records between others may be removed.

        :raises UpstreamNotFoundError: if there is no such topic.
        :raises KafkaUnavailableError: if the cluster does not answer.
        """
        return self.cluster.ask(self._compaction)

    def unknown_compaction(self) -> KafkaRefusedError:
        """Return the error that records are missing, and nobody may know why."""
        return KafkaRefusedError(
            f"{self.cluster.connection_id}: the view has records that topic {self.name} does not have, and the login "
            "may not ask whether compaction has removed them; grant it DESCRIBE_CONFIGS on the topic"
        )

    def newest_time(self) -> datetime | None:
        """
        Ask for the newest timestamp of any record; ``None`` if there is none, or it is no date.

        :raises UpstreamNotFoundError: if there is no such topic.
        :raises KafkaRefusedError: if the login may not read it.
        :raises KafkaUnavailableError: if the cluster does not answer.
        """
        milliseconds = self.cluster.ask(self._newest_time)
        return instant_of(milliseconds)

    def _newest_time(self, session: Session) -> int:
        with self._translated(session):
            numbers = [partition.id for partition in self._described(session).partitions]
            newest = self._listed(session, numbers, OffsetSpec.max_timestamp())
        return max((answer.timestamp for answer in newest.values()), default=-1)

    def _compaction(self, session: Session) -> Compaction:
        with self._translated(session):
            topic = ConfigResource(ResourceType.TOPIC, self.name)
            try:
                (settings,) = session.answers(session.client.describe_configs([topic]).values())
            except KafkaException as error:
                if error.args[0].code() in _DENIED:
                    return Compaction.UNKNOWN
                raise
        policies = settings[_CLEANUP_POLICY].value or ""
        return Compaction.REMOVES if _COMPACT in policies.split(",") else Compaction.NONE

    def _state(self, session: Session) -> TopicState:
        with self._translated(session):
            described = self._described(session)
            numbers = [partition.id for partition in described.partitions]
            beginnings = self._offsets(session, numbers, OffsetSpec.earliest())
            ends = self._offsets(session, numbers, OffsetSpec.latest())
            if str(self._described(session).topic_id) != str(described.topic_id):
                raise session.unavailable(f"topic {self.name} was made anew at this moment")
        return TopicState(
            topic_id=str(described.topic_id),
            partitions={
                number: PartitionBounds(beginning=min(beginnings[number], ends[number]), end=ends[number])
                for number in sorted(numbers)
            },
        )

    def _offsets_at(self, session: Session, milliseconds: int) -> Mapping[int, int]:
        with self._translated(session):
            numbers = [partition.id for partition in self._described(session).partitions]
            # First the ends: records that come in between are younger than what is not found.
            ends = self._offsets(session, numbers, OffsetSpec.latest())
            found = self._offsets(session, numbers, OffsetSpec.for_timestamp(milliseconds))
        return {number: ends[number] if found[number] == _NO_OFFSET else found[number] for number in sorted(numbers)}

    def _described(self, session: Session) -> TopicDescription:
        futures = session.client.describe_topics(
            TopicCollection([self.name]), include_authorized_operations=True, request_timeout=REQUEST_SECONDS
        )
        description: TopicDescription
        (description,) = session.answers(futures.values())
        if AclOperation.READ not in (description.authorized_operations or [AclOperation.READ]):
            raise self._denied(session, "the login may describe it, and not read it")
        return description

    def _offsets(self, session: Session, partitions: list[int], spec: OffsetSpec) -> dict[int, int]:
        answers = self._listed(session, partitions, spec)
        if any(answer.offset == OFFSET_INVALID for answer in answers.values()):
            # While a partition gets another leader, the client answers so instead of with an error.
            raise session.unavailable(f"a partition of topic {self.name} has no leader at this moment")
        return {partition: answer.offset for partition, answer in answers.items()}

    def _listed(self, session: Session, partitions: list[int], spec: OffsetSpec) -> dict[int, ListOffsetsResultInfo]:
        futures = session.client.list_offsets(
            {TopicPartition(self.name, number): spec for number in partitions},
            isolation_level=IsolationLevel.READ_COMMITTED,
            request_timeout=REQUEST_SECONDS,
        )
        answers = session.answers(futures.values())
        return {partition.partition: answer for partition, answer in zip(futures, answers, strict=True)}

    @contextmanager
    def _translated(self, session: Session) -> Iterator[None]:
        try:
            yield
        except KafkaException as error:
            failure: KafkaError = error.args[0]
            if failure.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise UpstreamNotFoundError(
                    f"{session.connection.connection_id}: there is no topic {self.name} in the Kafka cluster, or the "
                    "login may not know of it; check the name, or grant DESCRIBE and READ on it"
                ) from None
            if failure.code() in _DENIED:
                raise self._denied(session, failure.str()) from None
            raise KafkaRefusedError(
                f"{session.connection.connection_id}: the Kafka cluster refuses a request about topic {self.name} "
                f"({failure.str()})"
            ) from None

    def _denied(self, session: Session, reason: str) -> KafkaRefusedError:
        return KafkaRefusedError(
            f"{session.connection.connection_id}: the login may not read topic {self.name} ({reason}); grant it "
            "DESCRIBE and READ on the topic"
        )
