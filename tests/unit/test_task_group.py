"""The tasks of a backfill in a DAG."""

from __future__ import annotations

from airflow.sdk import DAG, task
from airflow.serialization.serialized_objects import DagSerialization

from airflow_backfill_provider.task_group import BackfillTaskGroup

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
