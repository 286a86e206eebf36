"""A topic removes records that a view has: a verification cannot compare them, and a repair keeps them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from confluent_kafka.admin import AclOperation
from pyspark.sql import DataFrame

from airflow_backfill_provider.core.errors import KafkaRefusedError
from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.core.status.verification import Verification
from airflow_backfill_provider.jobs import mutations
from airflow_backfill_provider.jobs.verification import verifier
from airflow_backfill_provider.sources.kafka.reader import KafkaReader
from tests.integration.kafka.producers import COMPACTED, consumed
from tests.integration.kafka.shop import TopicOfOrders
from tests.integration.kafka.test_security import allow, login

pytestmark = pytest.mark.spark


def compared(orders: TopicOfOrders) -> Verification:
    return verifier.compare_now(orders.backfill, orders.engine)


def change_view(orders: TopicOfOrders, statement: str, where: str = "") -> None:
    """Change the view behind the job's back."""
    orders.sql(f"{statement} {orders.view_name} {where}")


def keep(orders: TopicOfOrders, *values: str) -> None:
    """Write records with the same key, of which compaction keeps the last."""
    for value in values:
        orders.producer.produce(orders.topic, value, key="same")
    assert orders.producer.flush(30) == 0


def let_compaction_remove(orders: TopicOfOrders, removed: str) -> None:
    """Wait until a record's value is no longer in the topic."""
    for _ in range(60):
        # Only segments that are closed are compacted, and a new record closes the last one.
        orders.producer.produce(orders.topic, "filler", key="filler")
        assert orders.producer.flush(30) == 0
        if removed not in consumed(orders.kafka.servers(), orders.topic, {0: 1}).values():
            return
    raise AssertionError("the topic was not compacted")


@pytest.mark.exhaustive
def test_rows_of_compacted_records_are_counted_and_all_others_compared(orders: TopicOfOrders) -> None:
    """I1: compaction removes records between those that are left, and not only before the oldest one."""
    orders.kafka.create_topic(orders.topic, **COMPACTED)
    orders.producer.produce(orders.topic, "first", key="another")
    keep(orders, "a", "b", "c", "d")
    orders.create()
    orders.finish()
    let_compaction_remove(orders, "c")
    found = compared(orders)
    assert (found.equal, found.expected_rows, found.found_rows, found.removed_rows) == (True, 2, 2, 3)
    change_view(orders, "UPDATE", "SET value = 'wrong' WHERE value IN ('c', 'd')")
    change_view(orders, "INSERT INTO", "VALUES (0, 99, 'after the end'), (7, 0, 'of no partition')")
    change_view(orders, "DELETE FROM", "WHERE value = 'first'")
    differing = {(found.kind, found.key) for found in compared(orders).keys}
    assert differing == {
        ("different", ("0", "4")),
        ("missing", ("0", "0")),
        ("unexpected", ("0", "99")),
        ("unexpected", ("7", "0")),
    }
    mutations.repair_job(store=orders.backfill.store, vnodes=["0-15"], requested_by="tester")
    orders.finish()
    values = [value for _, _, value in orders.rows()]
    assert values[:5] == ["first", "a", "b", "wrong", "d"], "what the topic removed is kept as it was"
    assert {*values[5:]} == {"filler"}
    orders.assert_truth()


@pytest.mark.exhaustive
def test_a_row_that_the_topic_never_had_is_a_difference(orders: TopicOfOrders) -> None:
    """Without compaction a gap explains nothing; retention explains only what lies before the oldest record."""
    orders.kafka.create_topic(orders.topic)
    orders.add(*"abcdef")
    orders.create()
    orders.finish()
    orders.kafka.delete_records(orders.topic, 2)
    change_view(orders, "INSERT INTO", "VALUES (0, -1, 'x'), (0, 6, 'x'), (3, 0, 'x'), (NULL, 1, 'x'), (0, NULL, 'x')")
    found = compared(orders)
    assert (found.expected_rows, found.removed_rows) == (4, 2)
    assert {key.key for key in found.keys} == {("0", "-1"), ("0", "6"), ("3", "0"), (None, "1"), ("0", None)}
    assert {key.kind for key in found.keys} == {"unexpected"}
    assert str(found.repair(16, 100).keys) == str(tuple(key.key for key in found.keys))


@pytest.mark.exhaustive
@pytest.mark.parametrize("between", ["expected", "found"])
def test_records_that_are_removed_between_the_two_sides_are_no_difference(
    orders: TopicOfOrders, monkeypatch: pytest.MonkeyPatch, between: str
) -> None:
    """The sides are read one after the other, whichever is first."""
    orders.kafka.create_topic(orders.topic)
    orders.add(*"abcdef")
    orders.create()
    orders.finish()
    left = KafkaReader.without_removed

    def removing(self: KafkaReader, rows: DataFrame, key: Sequence[str], up_to: Offset) -> DataFrame:
        if between == "expected":
            orders.kafka.delete_records(orders.topic, 3)
        found = left(self, rows, key, up_to).localCheckpoint()
        if between == "found":
            orders.kafka.delete_records(orders.topic, 3)
        return found

    change_view(orders, "DELETE FROM", "WHERE value = 'f'")
    monkeypatch.setattr(KafkaReader, "without_removed", removing)
    assert [found.key for found in compared(orders).keys] == [("0", "5")]


@pytest.mark.exhaustive
def test_a_login_that_may_not_ask_for_compaction_is_refused_only_if_records_are_missing(
    orders: TopicOfOrders, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I6: such rows may be right or wrong."""
    kafka = orders.kafka
    kafka.create_topic(orders.topic)
    orders.add(*"abc")
    transaction = kafka.producer({"transactional.id": orders.topic})
    transaction.init_transactions(30)
    transaction.begin_transaction()
    transaction.produce(orders.topic, "d", partition=0)
    transaction.commit_transaction(30)
    orders.add("e")
    allow(kafka, "reader", orders.topic, AclOperation.READ)
    monkeypatch.setenv("AIRFLOW_CONN_EVENTS", kafka.connection("SASL_PLAINTEXT", **login()))
    orders.create()
    orders.finish()
    kafka.delete_records(orders.topic, 2)
    assert (compared(orders).equal, compared(orders).removed_rows) == (True, 2)
    (control,) = {4, 5} - {offset for _, offset, _ in orders.rows()}
    change_view(orders, "INSERT INTO", f"VALUES (0, {control}, 'at the control record')")
    with pytest.raises(KafkaRefusedError, match="grant it DESCRIBE_CONFIGS on the topic"):
        compared(orders)
