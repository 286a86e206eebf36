"""What a real broker says of a topic's identity, partitions and offsets."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

import pytest
from tenacity import RetryCallState, Retrying, retry_if_result, stop_after_delay, wait_fixed

from airflow_backfill_provider.core.errors import KafkaUnavailableError, UpstreamNotFoundError
from airflow_backfill_provider.sources.kafka.cluster import Cluster
from airflow_backfill_provider.sources.kafka.topic import PartitionBounds, Topic, TopicState
from tests.kafka_broker import KafkaBroker, two_brokers

pytestmark = pytest.mark.slow

HOUR = 3_600_000
NOON = 1_700_000_000_000


def bounds(beginning: int, end: int) -> PartitionBounds:
    return PartitionBounds(beginning=beginning, end=end)


def write(kafka: KafkaBroker, topic: str, values: Sequence[str], partition: int = 0, **record) -> None:
    producer = kafka.producer()
    for value in values:
        producer.produce(topic, value, partition=partition, **record)
    assert producer.flush(30) == 0


def soon(topic: Topic, expected: dict[int, PartitionBounds]) -> TopicState:
    """Return the state once it is as expected, or after a while: brokers end transactions after they have said so."""

    def as_it_is(last: RetryCallState) -> TopicState:
        assert last.outcome is not None
        state: TopicState = last.outcome.result()
        return state

    return Retrying(
        retry=retry_if_result(lambda state: state.partitions != expected),
        wait=wait_fixed(0.05),
        stop=stop_after_delay(30),
        retry_error_callback=as_it_is,
    )(topic.state)


def test_partitions_have_bounds_of_their_own(kafka: KafkaBroker, cluster: Cluster, topic: str) -> None:
    kafka.create_topic(topic, partitions=3)
    write(kafka, topic, ["a", "b"], partition=2)
    write(kafka, topic, ["c"], partition=0)
    state = Topic(cluster, topic).state()
    assert state.partitions == {0: bounds(0, 1), 1: bounds(0, 0), 2: bounds(0, 2)}


def test_a_partition_that_is_added_is_there(kafka: KafkaBroker, cluster: Cluster, topic: str) -> None:
    kafka.create_topic(topic)
    before = Topic(cluster, topic).state()
    kafka.add_partitions(topic, 2)
    after = Topic(cluster, topic).state()
    assert after.topic_id == before.topic_id
    assert (list(before.partitions), list(after.partitions)) == ([0], [0, 1])


def test_a_topic_that_was_made_anew_has_another_id(kafka: KafkaBroker, cluster: Cluster, topic: str) -> None:
    kafka.create_topic(topic)
    before = Topic(cluster, topic).state()
    assert Topic(cluster, topic).state().topic_id == before.topic_id
    kafka.delete_topic(topic)
    kafka.create_topic(topic)
    assert Topic(cluster, topic).state().topic_id != before.topic_id


def test_a_partition_ends_where_the_oldest_open_transaction_begins(
    kafka: KafkaBroker, cluster: Cluster, topic: str
) -> None:
    """Then its records, and those after it, are not read yet; an aborted one leaves a gap in the offsets."""
    kafka.create_topic(topic)
    producer = kafka.producer({"transactional.id": topic})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, "first")
    producer.commit_transaction(30)
    committed = {0: bounds(0, 2)}  # the record, and that it is committed
    assert soon(Topic(cluster, topic), committed).partitions == committed
    producer.begin_transaction()
    producer.produce(topic, "second")
    assert producer.flush(30) == 0
    write(kafka, topic, ["of another producer"])
    assert Topic(cluster, topic).state().partitions == {0: bounds(0, 2)}
    producer.abort_transaction(30)
    aborted = {0: bounds(0, 5)}
    assert soon(Topic(cluster, topic), aborted).partitions == aborted


def test_records_that_an_administrator_deleted_move_the_beginning(
    kafka: KafkaBroker, cluster: Cluster, topic: str
) -> None:
    kafka.create_topic(topic)
    write(kafka, topic, ["a", "b", "c"])
    kafka.delete_records(topic, before=2)
    assert Topic(cluster, topic).state().partitions == {0: bounds(2, 3)}


def test_compaction_leaves_the_bounds(kafka: KafkaBroker, cluster: Cluster, topic: str) -> None:
    kafka.create_topic(
        topic, cleanup_policy="compact", segment_ms="1", min_cleanable_dirty_ratio="0.01", max_compaction_lag_ms="1"
    )
    for value in "abc":
        write(kafka, topic, [value], key="k")
    assert Topic(cluster, topic).state().partitions == {0: bounds(0, 3)}


def test_an_instant_is_the_first_record_that_is_as_young(kafka: KafkaBroker, cluster: Cluster, topic: str) -> None:
    # The records are older than a topic keeps them by default.
    kafka.create_topic(topic, partitions=2, retention_ms="-1")
    for hour in (-1, 0, 1):
        write(kafka, topic, [str(hour)], timestamp=NOON + hour * HOUR)

    def at(milliseconds: float) -> dict[int, int]:
        instant = dt.datetime.fromtimestamp(milliseconds / 1000, dt.UTC)
        return dict(Topic(cluster, topic).offsets_at(instant))

    assert at(NOON - 2 * HOUR) == {0: 0, 1: 0}
    assert at(NOON) == {0: 1, 1: 0}
    assert at(NOON + 0.5) == {0: 2, 1: 0}
    assert at(NOON + 2 * HOUR) == {0: 3, 1: 0}


def test_a_topic_that_does_not_exist_is_named(kafka: KafkaBroker, cluster: Cluster) -> None:
    with pytest.raises(UpstreamNotFoundError, match="events: there is no topic nothing .* grant DESCRIBE and READ"):
        Topic(cluster, "nothing").state()


@pytest.mark.exhaustive
def test_a_broker_that_is_down_fails_clearly_and_is_found_again(
    kafka: KafkaBroker, cluster: Cluster, topic: str
) -> None:
    kafka.create_topic(topic)
    write(kafka, topic, ["a"])
    before = Topic(cluster, topic).state()
    kafka.kill()
    try:
        with pytest.raises(KafkaUnavailableError, match="events: the Kafka cluster does not answer .*nothing is lost"):
            Topic(cluster, topic).state()
    finally:
        kafka.start()
    assert Topic(cluster, topic).state() == before


@pytest.mark.exhaustive
def test_another_leader_answers_when_the_first_one_died(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    with two_brokers(tmp_path_factory.mktemp("kafka")) as (first, second):
        first.create_topic("orders", replicas=[[2, 1], [1, 2]])
        monkeypatch.setenv("AIRFLOW_CONN_EVENTS", first.connection())
        write(first, "orders", ["a", "b"])
        orders = Topic(Cluster("events"), "orders")
        written = {0: bounds(0, 2), 1: bounds(0, 0)}
        before = soon(orders, written)
        second.kill()
        assert soon(orders, written) == before
        assert before.partitions == written
