"""A topic becomes a view, epoch by epoch: every committed record exactly once."""

from __future__ import annotations

import pytest

from airflow_backfill_provider import protocol
from airflow_backfill_provider.core.errors import ChangeFeedGapError, UpstreamReplacedError
from airflow_backfill_provider.jobs import mutations
from airflow_backfill_provider.jobs.verification import verifier
from airflow_backfill_provider.sources.split_offsets import ends_of
from tests.integration.engine.succeeding import grow, grown, step
from tests.integration.kafka.shop import TopicOfOrders, write

pytestmark = pytest.mark.spark


@pytest.mark.smoke
def test_the_past_is_read_in_bounded_epochs_and_records_that_come_meanwhile_once(orders: TopicOfOrders) -> None:
    """I1 to I5: four partitions, one of them empty, under a rate limit that they share."""
    orders.kafka.create_topic(orders.topic, 4)
    written = {(split, place): f"{split}-{place}" for split in (0, 1, 3) for place in range(10 * (split + 1))}
    for (split, _), value in written.items():
        orders.producer.produce(orders.topic, value, partition=split)
    assert orders.producer.flush(30) == 0
    orders.create(rate_limit=24)
    counts = []
    for number in range(8):
        commit = orders.epoch()
        if commit is None:
            break
        counts.append(commit.rows_read)
        orders.add(f"late {number}", partition=number % 4)
        place = ends_of(orders.backfill.upstream.latest())[number % 4] - 1
        written[number % 4, place] = f"late {number}"
    # What is appended to a partition that is finished is a change.
    assert counts[:4] == [24, 48, 70, 70]
    orders.finish()
    assert orders.rows() == sorted((*key, value) for key, value in written.items())
    assert orders.backfill.status().finished
    orders.add("fresh", partition=2)
    assert orders.epoch() is not None
    assert ("fresh" in {row[2] for row in orders.rows()}, len(orders.rows())) == (True, len(written) + 1)
    orders.assert_truth()


def test_only_records_of_committed_transactions_are_rows(orders: TopicOfOrders) -> None:
    """Control records and aborted ones leave gaps in the offsets."""
    orders.kafka.create_topic(orders.topic)
    producer = orders.kafka.producer({"transactional.id": orders.topic})
    producer.init_transactions()
    for number, end in enumerate([producer.commit_transaction, producer.abort_transaction] * 2):
        producer.begin_transaction()
        write(producer, orders.topic, *[f"{number}-{index}" for index in range(5)])
        end()
    orders.create(rate_limit=4)
    orders.finish()
    producer.begin_transaction()
    write(producer, orders.topic, "open")
    orders.add("behind it")
    assert orders.epoch() is None
    producer.commit_transaction()
    orders.finish()
    values = [f"{number}-{index}" for number in (0, 2) for index in range(5)]
    assert [value for _, _, value in orders.rows()] == [*values, "open", "behind it"]


@pytest.mark.exhaustive
def test_an_empty_topic_is_finished_at_once_and_a_partition_that_is_added_is_read(orders: TopicOfOrders) -> None:
    orders.kafka.create_topic(orders.topic)
    orders.create()
    orders.finish()
    assert orders.backfill.status().finished
    orders.add_partitions(3)
    orders.add("added", partition=2)
    orders.finish()
    assert orders.rows() == [(2, 0, "added")]


@pytest.mark.exhaustive
def test_a_partition_that_is_added_during_the_backfill_is_read(orders: TopicOfOrders) -> None:
    orders.kafka.create_topic(orders.topic)
    orders.add(*"abcdef")
    orders.create(rate_limit=2)
    orders.epoch()
    orders.add_partitions(40)
    for partition in range(1, 40):
        orders.add(f"p{partition}", partition=partition)
    orders.finish()
    expected = [(0, place, value) for place, value in enumerate("abcdef")]
    assert orders.rows() == [*expected, *((partition, 0, f"p{partition}") for partition in range(1, 40))]


def test_records_that_are_gone_before_they_were_read_fail_the_epoch(orders: TopicOfOrders) -> None:
    """I6."""
    orders.kafka.create_topic(orders.topic)
    orders.add(*"abcdefgh")
    orders.create(rate_limit=2)
    orders.epoch()
    orders.kafka.delete_records(orders.topic, 5)
    with pytest.raises(ChangeFeedGapError, match=r"offsets 2 to 4 of partition 0 are gone.*Rebuild the job"):
        orders.epoch()


@pytest.mark.exhaustive
def test_records_that_are_gone_are_skipped_with_a_warning_if_the_job_says_so(orders: TopicOfOrders) -> None:
    orders.kafka.create_topic(orders.topic)
    orders.add(*"abcdefgh")
    orders.create(rate_limit=2, kafka={"lost_records": "skip"})
    orders.epoch()
    orders.kafka.delete_records(orders.topic, 5)
    orders.finish()
    assert [value for _, _, value in orders.rows()] == [*"abfgh"]
    assert "offsets 2 to 4 of partition 0 are gone, and missing in the view" in str(list(orders.barriers()))


@pytest.mark.exhaustive
def test_what_was_gone_before_the_job_was_created_is_not_its_past(orders: TopicOfOrders) -> None:
    orders.kafka.create_topic(orders.topic)
    orders.add(*"abcdefgh")
    orders.kafka.delete_records(orders.topic, 5)
    orders.create()
    orders.finish()
    assert [value for _, _, value in orders.rows()] == [*"fgh"]


@pytest.mark.exhaustive
def test_a_topic_that_is_made_anew_is_another_topic(orders: TopicOfOrders) -> None:
    """I6."""
    orders.kafka.create_topic(orders.topic)
    orders.add(*"abc")
    orders.create()
    orders.finish()
    orders.kafka.delete_topic(orders.topic)
    orders.kafka.create_topic(orders.topic)
    orders.add(*"abcdef")
    with pytest.raises(UpstreamReplacedError, match="was made anew.*rebuild the job"):
        orders.epoch()


@pytest.mark.exhaustive
def test_several_task_runs_share_the_partitions(orders: TopicOfOrders) -> None:
    orders.kafka.create_topic(orders.topic, 6)
    for partition in range(6):
        orders.add(*range(20), partition=partition)
    orders.create(parallelism=2, rate_limit=60)
    commits = orders.finish()
    assert [commit.rows_read for commit in commits] == [60, 120]
    assert len(orders.rows()) == 120


@pytest.mark.exhaustive
def test_rows_that_retention_removed_from_the_topic_stay_in_the_view(orders: TopicOfOrders) -> None:
    """A verification leaves them out, and a repair keeps them."""
    orders.kafka.create_topic(orders.topic, 2)
    orders.add(*"abcd")
    orders.add(*"efgh", partition=1)
    orders.create()
    orders.finish()
    orders.kafka.delete_records(orders.topic, 2)
    orders.assert_truth()
    orders.sql("DELETE FROM {view} WHERE value IN ('c', 'f')")
    assert not verifier.compare_now(orders.backfill, orders.engine).equal
    mutations.repair_job(store=orders.backfill.store, vnodes=["0-15"], requested_by="tester")
    orders.finish()
    assert [value for _, _, value in orders.rows()] == [*"abcdefgh"]


@pytest.mark.exhaustive
def test_a_view_is_rebuilt_while_it_serves(orders: TopicOfOrders) -> None:
    """The positions of the splits count from the beginning of the topic, also after the handover."""
    orders.kafka.create_topic(orders.topic, 2)
    orders.add(*"abcdef")
    orders.create()
    orders.finish()
    protocol.finish_job(store=orders.backfill.store, requested_by="tester")
    latter = "SELECT partition, `offset`, upper(CAST(value AS STRING)) AS value FROM upstream"
    grow(orders, **orders.of_topic({"query": latter, "rate_limit": 4}))
    step(orders)
    orders.add("g", partition=1)
    orders.epoch()
    assert sorted(value for _, _, value in orders.rows()) == [*"abcdefg"]
    grown(orders)
    orders.finish()
    orders.add("h", partition=1)
    orders.finish()
    assert sorted(value for _, _, value in orders.rows()) == [*"ABCDEFGH"]
    orders.assert_truth()
