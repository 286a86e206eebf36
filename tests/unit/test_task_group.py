"""The tasks of a backfill in a DAG."""

from __future__ import annotations

import pytest
from airflow.sdk import DAG, task
from airflow.serialization.serialized_objects import DagSerialization

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.task_group import BackfillTaskGroup, ParallelBackfillTaskGroup

JOB = {
    "name": "paid_orders",
    "upstream": {"path": "/lake/orders", "key": ["order_id"]},
    "materialized_view": "/lake/o'brien/paid orders #1",
    "query": "SELECT order_id FROM upstream WHERE note = '{{ not a template }}'",
}


def test_a_group_takes_job_and_barriers_from_other_tasks():
    @task
    def job():
        return JOB

    @task
    def barriers():
        return [None, 4]

    with DAG("by_tasks", schedule=None) as dag:
        group = BackfillTaskGroup("orders", job=job(), barriers=barriers())

    assert group.epochs.upstream_task_ids == {"job", "barriers", "orders.create_job"}
    assert group.create.upstream_task_ids == {"job"}
    assert group.finish.upstream_task_ids == {"job", "orders.run_epoch"}
    assert DagSerialization.to_dict(dag)


PARALLEL = {**JOB, "strategy": "arrangement", "parallelism": 2}


def test_the_tasks_are_attributes_and_run_in_order():
    with DAG("by_attributes", schedule=None):
        group = BackfillTaskGroup("orders", job=JOB, barriers=2, compact_at=20)
    assert group.epochs.upstream_task_ids == {"orders.create_job"}
    assert group.finish.upstream_task_ids == group.compact.upstream_task_ids == {"orders.run_epoch"}
    assert group.compact.compact_at == 20
    assert [outlet.name for outlet in group.finish.outlets] == ["paid_orders", "paid_orders finished"]


def test_a_group_compacts_nothing_unless_it_is_asked_to():
    with DAG("without", schedule=None):
        group = BackfillTaskGroup("orders", job=JOB)
    assert group.compact is None
    assert group.finish.downstream_task_ids == set()


def test_each_shared_epoch_is_a_group_after_the_one_before():
    with DAG("shared", schedule=None) as dag:
        group = ParallelBackfillTaskGroup("orders", job=PARALLEL, barriers=2)
    first, second = group.epochs
    assert (first.group_id, second.group_id) == ("orders.epoch_1", "orders.epoch_2")
    assert dag.get_task("orders.epoch_1.inject").upstream_task_ids == {"orders.create_job"}
    assert dag.get_task("orders.epoch_2.inject").upstream_task_ids == {"orders.epoch_1.summary"}
    assert group.finish.upstream_task_ids == {"orders.epoch_2.summary"}
    assert dag.get_task("orders.epoch_1.summary").trigger_rule == "none_failed", "an epoch may have no parts"


@pytest.mark.parametrize(("kind", "epochs"), [(BackfillTaskGroup, 0), (ParallelBackfillTaskGroup, 2)])
def test_a_number_of_epochs_that_is_not_possible_is_refused_when_the_dag_is_parsed(kind, epochs):
    with DAG("refused", schedule=None), pytest.raises(InvalidJobError, match="epochs_per_run"):
        kind("orders", job=JOB, epochs_per_run=epochs)
