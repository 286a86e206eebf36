"""Which events of a job are sent, and that sending them never fails a task."""

from __future__ import annotations

import asyncio
import datetime as dt
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from airflow.sdk import DAG, BaseNotifier
from airflow.sdk.exceptions import AirflowFailException

from airflow_backfill_provider import protocol
from airflow_backfill_provider.core.job.requester import Requester
from airflow_backfill_provider.jobs import creation
from airflow_backfill_provider.jobs.verification import verifier
from airflow_backfill_provider.notifications.backfill import BackfillNotifier
from tests.plain_engine import CountingEngine, make
from tests.unit.stand_in import SOMEBODY, Lake

pytestmark = pytest.mark.slow  # whole epochs through Delta tables

RUN = Requester(dag_id="orders", run_id="run_1", task_id="finish")


@pytest.fixture
def ran(as_ran: Callable[[], Lake]) -> Lake:
    """The job, one epoch of which is committed."""
    return as_ran()


@pytest.fixture
def created(as_created: Callable[[], Lake]) -> Lake:
    """The job, created."""
    return as_created()


class RecordingNotifier(BaseNotifier):
    """A notifier as any provider has one; records its rendered template."""

    template_fields = ("text",)
    sent: list[str] = []  # noqa: RUF012 - shared by the copies

    def __init__(self, text="{{ backfill.kind }} {{ backfill.job }} in {{ run_id }}"):
        super().__init__()
        self.text = text

    def notify(self, context):
        self.sent.append(self.text)


@pytest.fixture
def sent():
    RecordingNotifier.sent.clear()
    return RecordingNotifier.sent


def callback(state="success", run_id="run_1", task_id="run_epoch", **more):
    """What Airflow gives to a task's callback."""
    ti = SimpleNamespace(dag_id="orders", run_id=run_id, task_id=task_id, map_index=-1, state=state)
    return {"ti": ti, "run_id": run_id, **more}


@pytest.fixture(scope="module")
def finished(four_files: Path, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """The job, its view finished by a run. One for all tests: sending events leaves the job as it is."""
    lake = Lake(shutil.copytree(four_files, tmp_path_factory.mktemp("finished") / "lake"))
    lake.create()
    lake.complete()
    protocol.finish_job(store=lake.backfill.store, requested_by=str(RUN))
    return lake


def stall(lake: Lake):
    """Pin an epoch that is not run for two days."""
    backfill = lake.backfill
    then = dt.datetime.now(dt.UTC) - dt.timedelta(days=2)
    protocol.inject_barrier(store=backfill.store, upstream=backfill.upstream, requester=RUN, clock=lambda: then)


@pytest.mark.parametrize("state", ["success", "skipped"])
def test_an_epoch_that_went_well_is_no_event(ran: Lake, sent, state):
    BackfillNotifier(job=ran.definition, send=[RecordingNotifier()])(callback(state))
    assert sent == []


def test_the_task_that_finished_the_view_sends_the_event(finished: Lake, sent):
    notifier = BackfillNotifier(
        job=finished.definition, send=[RecordingNotifier(), RecordingNotifier("{{ backfill.text }}")]
    )
    notifier(callback(task_id="finish"))
    view = finished.backfill.job.materialized_view
    assert sent == [
        "finished small_orders in run_1",
        f"small_orders finished: the view {view} is finished as of epoch 3, 1,000 rows were read",
    ]


@pytest.mark.parametrize(
    ("dag_id", "run_id", "task_id"),
    [("orders", "run_2", "finish"), ("other", "run_1", "finish"), ("orders", "run_1", "run_epoch")],
)
def test_no_other_task_and_no_later_run_sends_it_again(finished: Lake, sent, dag_id, run_id, task_id):
    context = callback(run_id=run_id, task_id=task_id)
    context["ti"].dag_id = dag_id
    BackfillNotifier(job=finished.definition, send=[RecordingNotifier()])(context)
    assert sent == []


def test_a_dags_callback_sends_that_the_view_is_finished(finished: Lake, sent):
    """Airflow's own has the run's last task beside the reason, or the DAG alone."""
    notifier = BackfillNotifier(job=finished.definition, send=[RecordingNotifier()])
    notifier(callback(reason="success"))
    notifier({"dag": DAG("orders", schedule=None), "run_id": "run_1", "reason": "success"})
    assert sent == ["finished small_orders in run_1"] * 2


@pytest.mark.parametrize(
    ("dag_id", "run_id"), [("orders", "run_2"), ("other", "run_1"), ("order", "run_1"), ("orders", "a_run_1")]
)
def test_another_dags_run_does_not_send_that_the_view_is_finished(finished: Lake, sent, dag_id, run_id):
    BackfillNotifier(job=finished.definition, send=[RecordingNotifier()])(
        {"dag": DAG(dag_id, schedule=None), "run_id": run_id, "reason": "success"}
    )
    assert sent == []


def test_a_failure_is_sent_with_its_reason_and_the_status(ran: Lake, sent):
    text = "{{ backfill.message }} at {{ backfill.status.rows_read }} rows, {{ backfill.status.vnode_map is defined }}"
    context = callback("failed", exception=AirflowFailException("the change feed has a gap"))
    BackfillNotifier(job=ran.definition, send=[RecordingNotifier(text)])(context)
    assert sent == ["task orders.run_epoch of run run_1 failed (the change feed has a gap) at 400 rows, False"]


def test_differing_keys_are_not_sent(ran: Lake, sent):
    engine = CountingEngine([["7"]])
    verifier.verify_job(ran.backfill, engine=lambda: engine, requester=SOMEBODY)
    text = "{{ backfill.status.verified.equal }}, {{ backfill.status.verified.sample is defined }}"
    BackfillNotifier(job=ran.definition, send=[RecordingNotifier(text)])(callback("failed"))
    assert sent == ["False, False"]


def test_the_text_of_another_exception_is_not_repeated(created: Lake, sent):
    """It may hold anything, rows and secrets among them."""
    context = callback("failed", exception=ValueError("very-secret"))
    BackfillNotifier(job=created.definition, send=[RecordingNotifier("{{ backfill.message }}")])(context)
    assert sent == ["task orders.run_epoch of run run_1 failed (ValueError)"]


def test_a_task_whose_worker_died_has_failed_without_an_exception(created: Lake, sent):
    BackfillNotifier(job=created.definition, send=[RecordingNotifier()])(callback(None))
    assert sent == ["failed small_orders in run_1"]


def test_a_dags_failure_names_the_run(created: Lake, sent):
    context = {"dag": DAG("orders", schedule=None), "run_id": "run_1", "reason": "task_failure"}
    BackfillNotifier(job=created.definition, send=[RecordingNotifier("{{ backfill.message }}")])(context)
    assert sent == ["DAG run run_1 of orders failed (task_failure)"]


def test_a_failure_is_sent_also_if_the_job_was_not_created(orders: Lake, sent):
    text = "{{ backfill.kind }} {{ backfill.status }}"
    BackfillNotifier(job=orders.definition, send=[RecordingNotifier(text)])(callback("failed"))
    assert sent == ["failed None"]


def test_alarms_of_the_watchdog_are_sent(created: Lake, sent):
    stall(created)
    BackfillNotifier(job=created.definition, send=[RecordingNotifier("{{ backfill.kind }}: {{ backfill.remedy }}")])(
        callback()
    )
    assert [text.split(":")[0] for text in sent] == ["stalled"]
    assert "orders.finish of run run_1" in sent[0]


def test_a_rebuilt_view_is_finished_by_the_last_task_that_did_it(orders: Lake, sent):
    """I3: an explicit rebuild starts over, and so do its events."""
    orders.fields = {"rate_limit": None}
    orders.create()
    orders.epochs(1)
    protocol.finish_job(store=orders.backfill.store, requested_by=str(RUN))
    backfill = orders.backfill
    make(backfill, creation.rebuild_job)
    notifier = BackfillNotifier(job=orders.definition, send=[RecordingNotifier()])
    notifier(callback(task_id="finish"))
    assert sent == [], "it is not finished"
    orders.epochs(1)
    protocol.finish_job(store=backfill.store, requested_by=str(RUN.model_copy(update={"run_id": "run_2"})))
    notifier(callback(task_id="finish"))
    notifier(callback(task_id="finish", run_id="run_2"))
    assert sent == ["finished small_orders in run_2"]


@pytest.mark.parametrize(("events", "expected"), [(["failed"], 1), (["finished", "headroom"], 0), (["stalled"], 1)])
def test_only_chosen_events_are_sent(created: Lake, sent, events, expected):
    stall(created)
    BackfillNotifier(job=created.definition, send=[RecordingNotifier()], events=events)(callback("failed"))
    assert len(sent) == expected


def test_an_unknown_event_is_refused_when_the_dag_is_parsed(orders: Lake):
    with pytest.raises(ValueError, match="stuck"):
        BackfillNotifier(job=orders.definition, send=[], events=["stuck"])


def test_each_event_renders_templates_again(created: Lake, sent):
    """A notifier renders its fields in place."""
    stall(created)
    notifier = BackfillNotifier(job=created.definition, send=[RecordingNotifier()])
    notifier(callback("failed"))
    notifier(callback("failed", run_id="run_2"))
    assert sent == [f"{kind} small_orders in {run}" for run in ("run_1", "run_2") for kind in ("failed", "stalled")]


def test_the_job_is_a_template(created: Lake, sent, tmp_path):
    file = tmp_path / "job.yaml"
    file.write_text(created.backfill.job.model_dump_json(), encoding="utf-8")
    BackfillNotifier(job="{{ params.job }}", send=[RecordingNotifier()])(callback("failed", params={"job": str(file)}))
    assert sent == ["failed small_orders in run_1"]


@pytest.mark.parametrize("job", ["/nowhere.yaml", {}, "{{ no.such.name }}"])
def test_a_job_that_cannot_be_opened_fails_nothing(sent, job, caplog):
    BackfillNotifier(job=job, send=[RecordingNotifier()])(callback("failed"))
    assert sent == []
    assert "no notification was sent" in caplog.text


def test_it_can_be_awaited(created: Lake, sent):
    async def send():
        await BackfillNotifier(job=created.definition, send=[RecordingNotifier()], context=callback("failed"))

    asyncio.run(send())
    assert sent == ["failed small_orders in run_1"]
