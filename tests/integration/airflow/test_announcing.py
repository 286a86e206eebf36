"""On real Airflow, with its events, its state of tasks and OpenLineage's fork: each committed epoch is announced."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException

from airflow_backfill_provider.hooks.spark_application import SparkApplicationHook
from airflow_backfill_provider.operators.finish import FinishMaterializedViewOperator
from tests.integration.airflow.conftest import Run
from tests.unit.stand_in import Lake, StandInSpark

pytestmark = [
    pytest.mark.airflow,
    pytest.mark.timeout(600),
    # OpenLineage's provider forks the task's process.
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
]

DAGS = Path(__file__).parent / "announcing_dags" / "orders.py"
ORDERS = {"name": "announced_orders"}

RunDag = Callable[..., Run]


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """A job of three epochs, which is not created."""
    lake = Lake(tmp_path, ORDERS)
    for first in range(0, 1000, 250):
        lake.append(range(first, first + 250))
    monkeypatch.setenv("ORDERS_LAKE", str(tmp_path))
    return lake


@pytest.fixture
def spark(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> StandInSpark:
    """The stand-in to which the task runs submit."""
    spark = StandInSpark()
    monkeypatch.setattr(
        SparkApplicationHook,
        "run",
        lambda _, application, arguments, output: spark.run(lake.backfill, application, arguments),
    )
    return spark


@pytest.fixture
def run_dag(lake: Lake, airflow_database: None, monkeypatch: pytest.MonkeyPatch) -> RunDag:
    """Runs a DAG by hand, in this process."""
    from airflow import settings
    from airflow.dag_processing.dagbag import DagBag

    # A run writes the DAGs of this folder to the database first.
    monkeypatch.setattr(settings, "DAGS_FOLDER", str(DAGS.parent))

    def run(dag_id: str) -> Run:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            bag = DagBag(str(DAGS))
            assert bag.import_errors == {}
            return Run(bag.dags[dag_id].test(logical_date=None))

    return run


def epochs_announced_by(dag_id: str) -> list[int]:
    """Return the epochs of the view's events from a DAG, in order."""
    return [extra["epoch"] for _, extra in events_of("announced_orders", dag_id) if extra["event"] == "epoch"]


def events_of(asset: str, dag_id: str | None = None) -> list[tuple[str, dict[str, Any]]]:
    from airflow.models.asset import AssetEvent
    from airflow.utils.session import create_session

    with create_session() as session:
        events = session.query(AssetEvent).order_by(AssetEvent.id)
        return [
            (event.source_dag_id, event.extra)
            for event in events
            if event.asset.name == asset and dag_id in {None, event.source_dag_id}
        ]


@pytest.fixture
def lineage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[dict[str, Any]]]:
    """Returns the events that OpenLineage's provider has sent when a task of epochs was complete."""
    from airflow.providers.openlineage.plugins.listener import OpenLineageListener
    from airflow.sdk.listener import get_listener_manager

    file = tmp_path / "lineage.jsonl"
    transport = {"type": "file", "log_file_path": str(file), "append": True}
    monkeypatch.setenv("AIRFLOW__OPENLINEAGE__TRANSPORT", json.dumps(transport))
    listeners = get_listener_manager().pm
    # The provider's plugin has registered one of these if no test before this one ran a task.
    for registered in listeners.get_plugins():
        if isinstance(registered, OpenLineageListener):
            listeners.unregister(registered)
    listener = OpenLineageListener()
    listeners.register(listener)

    def sent() -> list[dict[str, Any]]:
        events = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        return [e for e in events if e["eventType"] == "COMPLETE" and e["job"]["name"].endswith("run_epoch")]

    yield sent
    listeners.unregister(listener)


def die(*_: Any) -> None:
    raise AirflowException("the worker died")


@pytest.mark.exhaustive
def test_a_run_announces_what_the_run_before_it_left(
    lake: Lake, spark: StandInSpark, run_dag: RunDag, lineage, monkeypatch: pytest.MonkeyPatch
):
    """The first run pins an epoch, and its application dies. Then another DAG and the command line run one each."""
    lake.create()
    spark.before.append(("the JVM died", True))
    assert run_dag("announcing").state == "failed"
    assert epochs_announced_by("announcing") == []

    assert run_dag("announcing").state == "success"
    assert epochs_announced_by("announcing") == [1, 2]
    (told,) = lineage()
    (read,), (written,) = told["inputs"], told["outputs"]
    assert read["inputFacets"]["inputStatistics"]["rowCount"] == 800
    assert read["facets"]["schema"]["fields"][0]["name"] == "order_id"
    assert written["facets"]["schema"]["fields"]

    lake.append([2000])
    with monkeypatch.context() as dying:
        dying.setattr(FinishMaterializedViewOperator, "emit_finish", die)
        assert run_dag("announcing_too").state == "failed"
    assert epochs_announced_by("announcing_too") == [3]
    assert events_of("announced_orders finished") == []
    lake.append([2001])
    lake.epochs(1)
    lake.append([2002])
    assert run_dag("announcing").state == "success"
    assert epochs_announced_by("announcing") == [1, 2, 3, 4, 5]
    ((by, finished),) = events_of("announced_orders finished")
    assert (by, finished["epoch"]) == ("announcing", 3), "the run that finished the view failed before its event"
    assert run_dag("announcing_too").state == "success"
    assert epochs_announced_by("announcing_too") == [3, 4, 5]
