"""Fetch the jars of the Kafka broker of the tests and the demo, into a folder that Spark does not load."""

from __future__ import annotations

import sys
from pathlib import Path

from airflow_backfill_provider.applications.jars import JarSet, fetch, fetched
from airflow_backfill_provider.core.errors import SparkUnavailableError

BROKER = JarSet(
    user="the Kafka broker",
    folder=Path(sys.prefix, "share", "airflow-backfill", "kafka-broker"),
    coordinates=(
        "org.apache.kafka:kafka_2.13:4.4.0",
        "org.apache.logging.log4j:log4j-slf4j-impl:2.25.3",  # writes the broker's log
    ),
    of_spark=("scala-library",),  # Spark's Ivy never resolves it
)


def main() -> int:
    """Fetch the jars unless they are there, print one line, and return an exit code."""
    try:
        count = fetched(BROKER) or fetch(BROKER)
    except SparkUnavailableError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{count} jars for {BROKER.user} in {BROKER.folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
