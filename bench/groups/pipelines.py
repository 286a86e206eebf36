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
from bench.groups.views import QUERIES

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


def refresh(spark: SparkSession, kind: str, upstream: Path, folder: Path) -> float:
    """
    Refresh the view as a materialized view of a pipeline.

    :param kind: the name of its query.
    :param folder: for what the pipeline keeps.
    :returns: the seconds of its flow, without the start of the run.
    """
    name = f"bench_{kind}"
    query = QUERIES[kind].replace("FROM upstream", f"FROM delta.`{upstream}`")
    graph = create_dataflow_graph(spark, None, None, {})
    # In Parquet, because its second refresh of a Delta table fails: DELTA_CANNOT_CHANGE_PROVIDER.
    definition = f"CREATE MATERIALIZED VIEW {name} USING parquet AS {query}"
    SparkConnectGraphElementRegistry(spark, graph).register_sql(definition, Path(f"{name}.sql"))
    run = start_run(spark, graph, None, False, None, False, folder.as_uri())
    moments = {moment: at for event in _events(run) for moment, at in [_moment(event)] if moment}
    return (moments[_ENDED] - moments[_STARTED]) / 1000


def _events(run: Iterator[dict[str, Any]]) -> Iterator[Any]:
    return (result["pipeline_event_result"].event for result in run if "pipeline_event_result" in result)


def _moment(event: Any) -> tuple[str, int]:
    moment = next(
        (found for found in (_STARTED, _ENDED) if event.message.startswith("Flow") and found in event.message), ""
    )
    return moment, event.timestamp.ToMilliseconds()
