"""A job of a case, and what its view and its dead letters have."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from airflow_backfill_provider.core.epoch.settings import JobSettings
from airflow_backfill_provider.core.job.sql import quote
from airflow_backfill_provider.engine.spark_engine import SparkEngine
from airflow_backfill_provider.strategies.source.location import dead_letters_of
from faults.campaign import WrongError
from faults.kafka.drawing import UNREADABLE, DrawnJob
from tests.integration.engine.lakehouse import Lakehouse
from tests.integration.kafka.producers import Records

CONNECTION = "events"


class TopicJob(Lakehouse):
    """A job over the topic of a case."""

    def __init__(self, spark: SparkSession, folder: Path, name: str, topic: str, drawn: DrawnJob) -> None:
        super().__init__(spark, folder)
        self.engine = SparkEngine(spark.newSession())
        self.drawn = drawn
        upstream: dict[str, Any] = {"connection": CONNECTION, "topic": topic}
        if drawn.is_json:
            value = {"format": "json", "schema": "text STRING, small SMALLINT, at TIMESTAMP"}
            upstream |= {"value": value, "unreadable_records": "dead_letter"}
        self.fields = {"name": name, "upstream": {"kafka": upstream}, "query": drawn.text, **drawn.fields}

    def begin(self) -> JobSettings:
        """Create the job, and write its definition into a file for the command line."""
        settings = self.create(**self.fields)
        self.definition.write_text(json.dumps({**settings.job, "state": settings.job["state"]}), encoding="utf-8")
        return settings

    @property
    def definition(self) -> Path:
        """The file with the job's definition."""
        return Path(self.folder) / "job.yaml"

    @property
    def is_created(self) -> bool:
        """Whether the job is created."""
        return self.job is not None

    def found(self) -> Records:
        """
        Return the values in the view by partition and offset, and those of the dead letters.

        :raises WrongError: if a record is there twice.
        """
        key = [F.col(quote(name)) for name in self.drawn.query.key]
        rows = [tuple(row) for row in self.view().select(*key, "value").collect()]
        if self.drawn.is_json:
            letters = self.spark.read.format("delta").load(dead_letters_of(self.backfill.settings()))
            letters = letters.filter("epoch > 0").select("partition", "offset", F.col("value").cast("string"))
            rows += [tuple(row) for row in letters.collect()]
        found = {(partition, offset): value for partition, offset, value in rows}
        if len(found) != len(rows):
            raise WrongError(f"{len(rows) - len(found)} records are there twice")
        return found

    def expected(self, records: Records) -> Records:
        """Return what the view and the dead letters must have of some records."""
        has = self.drawn.query.has
        return {
            place: self._value(value)
            for place, value in records.items()
            if has(*place) or (self.drawn.is_json and value in UNREADABLE)
        }

    def _value(self, value: str | None) -> str | None:
        if not self.drawn.is_json or value is None or value in UNREADABLE:
            return value
        text: str = json.loads(value)["text"]
        return text
