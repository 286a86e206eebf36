"""Spark Declarative Pipelines, which ship with Spark: one run refreshes the same view."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.pipelines.spark_connect_graph_element_registry import SparkConnectGraphElementRegistry
from pyspark.pipelines.spark_connect_pipeline import create_dataflow_graph, start_run
from pyspark.sql import SparkSession

from airflow_backfill_provider.applications.connect import connected, server_version
from airflow_backfill_provider.applications.local_engine.server import start_engine, stop_engine

_PORT = 15804
_STARTED, _ENDED = "is RUNNING", "has COMPLETED"


@contextmanager
def pipeline_server(memory: str, warehouse: Path) -> Iterator[SparkSession]:
    """
    Start a Spark Connect server for pipelines.

    :param warehouse: for the tables of the views.
    """
    conf = {"spark.driver.memory": memory, "spark.sql.warehouse.dir": str(warehouse)}
    record, _ = start_engine(port=_PORT, master="local[*]", conf=conf, connect=server_version)
    try:
        with connected(record.remote, what="bench") as connection:
            yield connection.spark
    finally:
        stop_engine()


def refreshes(statement: str, folder: Path, *, memory: str, rounds: int) -> Iterator[float]:
    """
    Refresh a view several times, on a server of its own; yield the seconds of each refresh.

    :param statement: the query of the view, over tables by their paths.
    :param folder: for what the server and the pipelines keep.
    """
    with pipeline_server(memory, folder / "warehouse") as spark:
        for number in range(rounds):
            storage = folder / f"pipeline_{number}"
            storage.mkdir()
            yield refresh(spark, statement, storage)


def refresh(spark: SparkSession, statement: str, folder: Path) -> float:
    """
    Refresh a view as a materialized view of a pipeline.

    :param statement: the query of the view, over tables by their paths.
    :param folder: for what the pipeline keeps.
    :returns: the seconds of its flow, without the start of the run.
    """
    graph = create_dataflow_graph(spark, None, None, {})
    # In Parquet, because its second refresh of a Delta table fails: DELTA_CANNOT_CHANGE_PROVIDER.
    definition = f"CREATE MATERIALIZED VIEW bench_view USING parquet AS {statement}"
    SparkConnectGraphElementRegistry(spark, graph).register_sql(definition, Path("bench_view.sql"))
    run = start_run(spark, graph, None, False, None, False, folder.as_uri())
    return flow_seconds(event for result in run if (event := _event(result)) is not None)


def flow_seconds(events: Iterator[Any]) -> float:
    """
    Return how long a flow ran, by the events of its pipeline's run.

    :raises KeyError: if it did not complete.
    """
    moments = {moment: at for event in events for moment, at in [_moment(event)] if moment}
    return (moments[_ENDED] - moments[_STARTED]) / 1000


def _event(result: dict[str, Any]) -> Any:
    return result["pipeline_event_result"].event if "pipeline_event_result" in result else None


def _moment(event: Any) -> tuple[str, int]:
    moment = next(
        (found for found in (_STARTED, _ENDED) if event.message.startswith("Flow") and found in event.message), ""
    )
    return moment, event.timestamp.ToMilliseconds()
