"""A job as a DAG, and as a group of tasks in one."""

from __future__ import annotations

import datetime as dt

import pytest
from airflow.sdk import CronDataIntervalTimetable, DeltaDataIntervalTimetable
from airflow.serialization.encoders import coerce_to_core_timetable
from airflow.serialization.serialized_objects import DagSerialization
from airflow.timetables.base import TimeRestriction

from airflow_backfill_provider.assets import MATERIALIZED_VIEWS, materialized_view_asset, upstream_asset
from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.dag_factory import approved_backfill_dag, backfill_dag, with_data_intervals
from tests.several import shape_of_several, star

JOB = {
    "name": "paid_orders",
    "upstream": {"path": "/lake/orders", "key": ["order_id"]},
    "materialized_view": "/lake/o'brien/paid orders #1",
    "query": "SELECT order_id FROM upstream WHERE note = '{{ not a template }}'",
}


def test_a_dag_creates_the_job_runs_its_epochs_in_order_and_finishes_the_view():
    dag = backfill_dag(JOB, schedule="@hourly", barriers=3)

    assert dag.dag_id == "paid_orders"
    assert dag.max_active_runs == 1
    assert list(dag.topological_sort()) == [
        dag.get_task("backfill.create_job"),
        dag.get_task("backfill.run_epoch"),
        dag.get_task("backfill.finish_view"),
        dag.get_task("backfill.run_rebuild"),
    ]
    epochs = dag.get_task("backfill.run_epoch")
    assert epochs.expand_input.value == {"barrier": [None, None, None]}
    assert (epochs.max_active_tis_per_dagrun, epochs.max_active_tis_per_dag) == (1, 1)
    assert dag.get_task("backfill.create_job").retries == 2


def test_a_dag_runs_several_epochs_in_one_application():
    epochs = backfill_dag(JOB, epochs_per_run=20).get_task("backfill.run_epoch")

    assert epochs.partial_kwargs["epochs_per_run"] == 20
    assert epochs.expand_input.value == {"barrier": [None]}


def test_shared_epochs_are_one_to_an_application():
    with pytest.raises(InvalidJobError, match="epochs_per_run: 2 is not possible where task runs share an epoch"):
        backfill_dag({**JOB, "strategy": "arrangement", "parallelism": 2}, epochs_per_run=2)


@pytest.mark.parametrize("epochs_per_run", [0, -1, True])
def test_an_invalid_number_of_epochs_is_refused_when_the_dag_is_parsed(epochs_per_run):
    with pytest.raises(InvalidJobError, match="is not a number of epochs; give 1 or more"):
        backfill_dag(JOB, epochs_per_run=epochs_per_run)


@pytest.mark.parametrize("parallel", [{}, {"strategy": "arrangement", "parallelism": 4}], ids=["one", "parallel"])
def test_a_dag_compacts_the_view_after_its_epochs_if_asked_to(parallel):
    job = {**JOB, **parallel}
    assert "backfill.compact_view" not in backfill_dag(job).task_ids

    dag = backfill_dag(job, compact_at=20)

    compact = dag.get_task("backfill.compact_view")
    assert compact.compact_at == 20
    assert compact.upstream_task_ids == dag.get_task("backfill.finish_view").upstream_task_ids
    rebuild = dag.get_task("backfill.run_rebuild")
    assert rebuild.upstream_task_ids == {"backfill.compact_view"}, "two applications share the worker otherwise"
    assert "backfill.compact_view" in DagSerialization.from_dict(DagSerialization.to_dict(dag)).task_ids


def test_a_dag_goes_through_airflows_serialization():
    dag = backfill_dag(JOB, schedule="@daily")

    read = DagSerialization.from_dict(DagSerialization.to_dict(dag))

    tasks = ["create_job", "finish_view", "run_epoch", "run_rebuild"]
    assert sorted(read.task_ids) == [f"backfill.{task}" for task in tasks]


def test_a_rebuild_beside_the_view_gets_as_many_epochs_and_also_after_failed_ones():
    """What stops the epochs may be what the rebuild mends."""
    rebuild = backfill_dag(JOB, barriers=3, epochs_per_run=2).get_task("backfill.run_rebuild")
    assert (rebuild.epochs_per_run, rebuild.trigger_rule) == (6, "all_done")
    shared = backfill_dag({**JOB, "strategy": "arrangement", "parallelism": 4}, barriers=3)
    assert shared.get_task("backfill.run_rebuild").epochs_per_run == 3


def test_a_definition_is_no_template_even_where_it_looks_like_one():
    create = backfill_dag(JOB).get_task("backfill.create_job")

    create.render_template_fields({})

    assert create.job.query == JOB["query"]


def test_a_cron_schedule_gets_intervals_that_have_a_length():
    timetable = coerce_to_core_timetable(with_data_intervals("@daily"))
    start = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)

    run = timetable.next_dagrun_info(
        last_automated_data_interval=None,
        restriction=TimeRestriction(earliest=start, latest=None, catchup=True),
    )

    assert run.data_interval.end - run.data_interval.start == dt.timedelta(days=1)


@pytest.mark.parametrize(
    ("schedule", "kind"),
    [
        ("0 3 * * *", CronDataIntervalTimetable),
        ("@hourly", CronDataIntervalTimetable),
        (dt.timedelta(hours=1), DeltaDataIntervalTimetable),
        ("@continuous", str),
        (None, type(None)),
    ],
)
def test_a_schedule_without_an_interval_is_passed_on(schedule, kind):
    assert isinstance(with_data_intervals(schedule), kind)


def test_arguments_of_the_dag_go_before_the_factorys_own():
    dag = backfill_dag(JOB, dag_id="mine", catchup=True, tags=["x"], default_args={"retries": 5})

    assert (dag.dag_id, dag.catchup, dag.tags) == ("mine", True, {"x"})
    assert dag.get_task("backfill.create_job").retries == 5
    assert dag.get_task("backfill.create_job").retry_delay == dt.timedelta(seconds=30)


def test_a_wrong_definition_fails_when_the_dag_is_parsed():
    with pytest.raises(InvalidJobError, match="vnode_count"):
        backfill_dag({**JOB, "vnode_count": 0})


def test_finishing_the_view_is_an_event_of_both_of_its_assets_and_an_epoch_of_one():
    dag = backfill_dag(JOB, backfill_conn_id="lake")
    view, finished = dag.get_task("backfill.finish_view").outlets

    assert (view.name, view.uri) == ("paid_orders", "file:///lake/o%27brien/paid%20orders%20%231")
    assert view.extra == {"definition": JOB, "backfill_conn_id": "lake"}
    assert (finished.name, finished.uri) == ("paid_orders finished", f"{view.uri}?event=finished")
    assert dag.get_task("backfill.run_epoch").partial_kwargs["outlets"] == [MATERIALIZED_VIEWS]
    assert materialized_view_asset({**JOB, "materialized_view": "s3://bucket/view"}).uri == "s3://bucket/view"


def test_a_job_with_parallelism_gets_a_task_run_for_each_part_of_each_epoch():
    dag = backfill_dag({**JOB, "strategy": "arrangement", "parallelism": 4}, barriers=2)

    assert sorted(dag.task_ids) == sorted(
        ["backfill.create_job", "backfill.finish_view", "backfill.run_rebuild"]
        + [
            f"backfill.epoch_{number}.{task}"
            for number in (1, 2)
            for task in ("inject", "apply_changes", "read_chunk_part", "summary")
        ]
    )
    assert dag.get_task("backfill.epoch_2.inject").upstream_task_ids == {"backfill.epoch_1.summary"}
    parts = dag.get_task("backfill.epoch_1.read_chunk_part")
    assert parts.is_mapped
    assert parts.max_active_tis_per_dag is None, "side by side"
    DagSerialization.from_dict(DagSerialization.to_dict(dag))


def test_a_dag_may_follow_the_upstreams_commits_instead_of_a_clock():
    asset = upstream_asset(JOB, poll_interval=5, backfill_conn_id="lake")
    dag = backfill_dag(JOB, schedule=asset)

    assert (asset.name, asset.uri) == ("paid_orders upstream", "file:///lake/orders?job=paid_orders")
    (watcher,) = asset.watchers
    assert watcher.trigger.serialize() == (
        "airflow_backfill_provider.triggers.upstream.UpstreamCommitTrigger",
        {"job": JOB, "backfill_conn_id": "lake", "poll_interval": 5},
    )
    assert upstream_asset({**JOB, "name": "others"}).uri != asset.uri, "each job is told of its own needs alone"
    read = DagSerialization.from_dict(DagSerialization.to_dict(dag))
    assert type(read.timetable).__name__ == "AssetTriggeredTimetable"


@pytest.mark.parametrize("parallel", [{}, {"strategy": "arrangement", "parallelism": 2}])
def test_a_dag_may_ask_before_it_creates_the_job(parallel):
    approval = {"assigned_users": [{"id": "vera", "name": "Vera"}]}
    dag = approved_backfill_dag({**JOB, **parallel}, approval=approval, backfill_conn_id="lake", schedule="@daily")

    approve = dag.get_task("approve")
    assert dag.get_task("backfill.create_job").upstream_task_ids == {"approve"}
    assert dag.roots == [approve]
    assert (approve.job.name, approve.backfill_conn_id) == ("paid_orders", "lake")
    assert approve.assigned_users == approval["assigned_users"]
    assert approve.ignore_downstream_trigger_rules, "a summary of an epoch would run although it was rejected"
    DagSerialization.from_dict(DagSerialization.to_dict(dag))


LARGE = {
    "name": "large_orders",
    "upstream": {"path": "/lake/o'brien/paid orders #1", "key": ["order_id"]},
    "materialized_view": "/lake/large",
    "query": "SELECT order_id FROM upstream",
}
OTHER = {**LARGE, "name": "other", "upstream": {"path": "/lake/other", "key": ["order_id"]}, "materialized_view": "/o"}


@pytest.mark.parametrize("parallel", [{}, {"strategy": "arrangement", "parallelism": 4}], ids=["one", "parallel"])
def test_several_jobs_run_in_the_order_of_their_views_however_they_are_listed(parallel):
    dag = backfill_dag([OTHER, {**LARGE, **parallel}, JOB], schedule="@hourly")

    assert dag.dag_id == "other-paid_orders-large_orders"
    assert {"backfill", "paid_orders", "large_orders", "other"} == set(dag.tags)
    second = dag.get_task("large_orders.create_job")
    assert second.upstream_task_ids == {"paid_orders.finish_view", "paid_orders.run_rebuild"}
    # These two are skipped in most DAG runs.
    assert second.trigger_rule == "none_failed"
    for independent in ("paid_orders.create_job", "other.create_job"):
        task = dag.get_task(independent)
        assert (task.upstream_task_ids, task.trigger_rule) == (set(), "all_success")
    assert DagSerialization.from_dict(DagSerialization.to_dict(dag)).task_ids == dag.task_ids


def test_jobs_that_meet_in_a_view_read_as_of_one_instant():
    """Also in a DAG run that somebody started: each at its own time, they would show two versions of a table."""
    paid = {**JOB, "materialized_view": "/lake/paid"}
    with shape_of_several():
        upstreams = {
            "orders": {"path": "/lake/paid", "key": ["id"]},
            "customers": {"path": "/lake/large", "key": ["id"]},
        }
        parallel = {"strategy": "arrangement", "parallelism": 4}
        dag = backfill_dag([paid, {**LARGE, **parallel}, star(upstreams=upstreams)])
        (alone,) = backfill_dag(star(upstreams=upstreams)).task_group.children["backfill"].epochs.roots
    due = "{{ dag_run.run_after.isoformat() }}"
    assert dag.get_task("paid_orders.run_epoch").partial_kwargs["until"] == due
    assert dag.get_task("large_orders.epoch_1.inject").until == due
    assert "until" in dag.get_task("large_orders.epoch_1.inject").template_fields
    assert alone.partial_kwargs["until"] is None
    assert backfill_dag([OTHER, JOB]).get_task("paid_orders.run_epoch").partial_kwargs["until"] is None


@pytest.mark.parametrize("parallel", [{}, {"strategy": "arrangement", "parallelism": 4}], ids=["one", "parallel"])
def test_a_job_is_rebuilt_after_the_one_whose_view_it_reads_before_any_of_its_epochs(parallel):
    dag = backfill_dag([OTHER, {**LARGE, **parallel}, JOB], rebuild_downstream=True)

    rebuilds = [task for task in dag.tasks if task.task_id.endswith("rebuild_downstream")]
    assert [task.task_id for task in rebuilds] == ["large_orders.rebuild_downstream"]
    assert rebuilds[0].upstream_task_ids == {"large_orders.create_job"}
    first = "large_orders.epoch_1.inject" if parallel else "large_orders.run_epoch"
    assert rebuilds[0].downstream_task_ids == {first}


@pytest.mark.parametrize(
    ("jobs", "reason"),
    [
        ([], "the list is empty"),
        ([JOB, JOB], "two of the jobs are called paid_orders"),
        ([{**JOB, "upstream": {"path": "/lake/large", "key": ["order_id"]}}, LARGE], "in a circle"),
    ],
)
def test_jobs_without_an_order_are_refused_when_the_dag_is_parsed(jobs, reason):
    with pytest.raises(InvalidJobError, match=reason):
        backfill_dag(jobs)
