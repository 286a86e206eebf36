"""
Jobs on real Spark and Delta for the campaigns: shapes of tables, and random changes to them.

A shape is made once, up to the middle of its backfill, and restored for each case.
"""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from airflow_backfill_provider.core.epoch.crash_points import CrashPoint
from airflow_backfill_provider.engine.spark_engine import SparkEngine
from airflow_backfill_provider.jobs.verification.verifier import compare_now
from faults.campaign import WrongError
from tests.builders import Template
from tests.integration.engine.lakehouse import CHANGE_DATA_FEED, Lakehouse

ROWS = 40
MOST_EPOCHS = 25

COLUMNS = "id BIGINT, name STRING, amount DECIMAL(12, 2), at TIMESTAMP, tag STRING, ratio DOUBLE, raw BINARY"
EXPECTED = (
    "SELECT id, name, amount * 2 AS amount, at, tag, ratio, raw FROM {upstream} WHERE amount >= 0 OR amount IS NULL"
)
QUERY = EXPECTED.replace("{upstream}", "upstream")

OF_EVERY_EPOCH = frozenset(CrashPoint) - {
    CrashPoint.AFTER_SUCCESSION_STATE,
    CrashPoint.AFTER_SUCCESSION_SETTINGS,
    CrashPoint.BEFORE_CREATION_COMMIT,
    CrashPoint.AFTER_CREATION_COMMIT,
    CrashPoint.BEFORE_FENCE,
    CrashPoint.AFTER_CHUNK_FENCE,
    CrashPoint.AFTER_FENCE,
    CrashPoint.BEFORE_GIVING_UP,
    CrashPoint.BEFORE_LANDING_COMMIT,
    CrashPoint.AFTER_LANDING_COMMIT,
    CrashPoint.BEFORE_CLEAN_UP_COMMIT,
    CrashPoint.AFTER_CLEAN_UP_COMMIT,
    CrashPoint.BEFORE_READ_AHEAD_COMMIT,
    CrashPoint.AFTER_READ_AHEAD_COMMIT,
    CrashPoint.BEFORE_ARRANGEMENT_COMMIT,
    CrashPoint.AFTER_ARRANGEMENT_COMMIT,
    CrashPoint.AFTER_REMOVAL_COMMIT,
    CrashPoint.BEFORE_REPORT,
    CrashPoint.AFTER_REPORT,
}
OF_ARRANGEMENTS = frozenset({CrashPoint.BEFORE_ARRANGEMENT_COMMIT, CrashPoint.AFTER_ARRANGEMENT_COMMIT})
OF_CREATIONS = frozenset({CrashPoint.BEFORE_CREATION_COMMIT, CrashPoint.AFTER_CREATION_COMMIT})
OF_REPORTS = frozenset({CrashPoint.BEFORE_REPORT, CrashPoint.AFTER_REPORT})


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """
    A table and its job.

    :param job: fields of the job that differ from the defaults.
    :param properties: properties of the upstream in addition to the change feed.
    :param layout: the rest of its definition after the columns.
    :param points: the points that its next epoch passes.
    :param epochs: the number of epochs to run in advance.
    """

    name: str
    job: Mapping[str, Any] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)
    layout: str = ""
    points: frozenset[CrashPoint] = OF_EVERY_EPOCH
    epochs: int = 1


_MAPPED = {
    "delta.columnMapping.mode": "name",
    "delta.enableDeletionVectors": "true",
    "delta.enableInCommitTimestamps": "true",
}
_VECTORS = {"delta.enableDeletionVectors": "true"}

SHAPES = (
    Shape(name="in place"),
    Shape(name="in place, deletion vectors", properties=_VECTORS, job={"table_properties": _VECTORS}),
    Shape(
        name="in place, mapped columns, commit timestamps",
        properties=_MAPPED,
    ),
    Shape(name="in place, partitions, composite key", layout="PARTITIONED BY (tag)", job={"key": ["tag", "id"]}),
    Shape(name="in place, descending text and null keys", job={"key": [{"column": "name", "descending": True}, "id"]}),
    Shape(
        name="in place, hidden until finished",
        job={"strategy": "no_shuffle", "visibility": "on_finish", "rate_limit": 15},
        points=OF_EVERY_EPOCH | {CrashPoint.AFTER_REMOVAL_COMMIT},
        epochs=2,
    ),
    Shape(
        name="snapshot, among the files, deletion vectors",
        properties=_VECTORS,
        job={"strategy": "snapshot", "rate_limit": 15},
        epochs=2,
    ),
    Shape(
        name="snapshot, at the replay",
        # Two epochs read the files, and the rest of the log fits into another one.
        job={"strategy": "snapshot", "rate_limit": ROWS - 1},
        points=OF_EVERY_EPOCH | {CrashPoint.AFTER_REMOVAL_COMMIT},
        epochs=2,
    ),
    Shape(name="arrangement", job={"strategy": "arrangement"}, points=OF_EVERY_EPOCH | OF_ARRANGEMENTS),
    Shape(
        name="arrangement, another distribution key",
        job={"strategy": "arrangement", "distribution_key": ["tag"]},
        points=OF_EVERY_EPOCH | OF_ARRANGEMENTS,
    ),
    Shape(
        name="arrangement, shared by two",
        job={"strategy": "arrangement", "parallelism": 2},
        points=OF_EVERY_EPOCH | OF_ARRANGEMENTS | OF_REPORTS,
    ),
)


class Stage:
    """
    The shapes, each made when it is first needed.

    :param spark: the session.
    :param folder: the folder for the shapes.
    """

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark
        self._folder = folder
        self._made: dict[str, Template] = {}

    def restore(self, shape: Shape) -> Lakehouse:
        """Return a restored job in the middle of its backfill."""
        if shape.name not in self._made:
            path = self._folder / f"shape-{len(self._made)}"
            self._made[shape.name] = Template(path, lambda folder: begin(self.lakehouse(folder), shape))
        lakehouse = self.lakehouse(self._made[shape.name].restore())
        forget_tables(self.spark)
        define(lakehouse, shape)
        return lakehouse

    def fresh(self) -> Lakehouse:
        """Return an empty folder for a job."""
        return self.lakehouse(Path(tempfile.mkdtemp(prefix="case-", dir=self._folder)))

    def lakehouse(self, folder: Path) -> Lakehouse:
        """Return the tables of a folder, with an engine in a separate session."""
        lakehouse = Lakehouse(self.spark, folder)
        lakehouse.engine = SparkEngine(self.spark.newSession())
        return lakehouse


@contextmanager
def stage(spark: SparkSession) -> Iterator[Stage]:
    """Return a stage in a temporary folder."""
    folder = Path(tempfile.mkdtemp(prefix="backfill-faults-"))
    try:
        yield Stage(spark, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def case_folder(root: Path, case: int, spark: SparkSession) -> Iterator[Path]:
    """Make a folder for a case, and remove it with all that Spark knows of its tables."""
    folder = root / f"case-{case}"
    folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        forget_tables(spark)


def forget_tables(spark: SparkSession) -> None:
    """Let Delta forget cached tables, because the campaign itself restores them on disk, which is not a fault."""
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()  # type: ignore[union-attr] # noqa: SLF001


def definition(shape: Shape) -> dict[str, Any]:
    """Return the fields of a shape's job."""
    fields = {"query": QUERY, "rate_limit": ROWS // 2, **shape.job}
    fields.setdefault("key", ["id"])
    return fields


def define(lakehouse: Lakehouse, shape: Shape) -> None:
    """Define the shape's job, without creating it."""
    fields = definition(shape)
    distribution = fields.pop("distribution_key", None)
    key = fields.pop("key")
    upstream = {"path": lakehouse.upstream_path, "key": key}
    if distribution:
        upstream["distribution_key"] = distribution
    lakehouse.define(upstream=upstream, **fields)


def begin(lakehouse: Lakehouse, shape: Shape) -> None:
    """Create the shape's upstream and job, and run an epoch."""
    properties = ", ".join(f"'{name}' = '{value}'" for name, value in {**CHANGE_DATA_FEED, **shape.properties}.items())
    lakehouse.sql(f"CREATE TABLE {{upstream}} ({COLUMNS}) USING delta {shape.layout} TBLPROPERTIES ({properties})")
    lakehouse.sql(
        "INSERT INTO {upstream} SELECT id, IF(id % 13 = 5, NULL, concat(repeat('n', 32), id % 7)), (id - 3) * 1.5, "
        "timestamp_micros(id * 700), IF(id % 11 = 4, NULL, concat('t', id % 3)), "
        f"IF(id % 5 = 0, double('NaN'), id / 7), unhex(hex(id)) FROM range({ROWS})"
    )
    define(lakehouse, shape)
    assert lakehouse.job is not None
    fields = lakehouse.job.model_dump(mode="json")
    lakehouse.create(**{name: fields[name] for name in fields if name not in {"name", "materialized_view", "state"}})
    for epoch in range(shape.epochs):
        if epoch:
            lakehouse.sql("UPDATE {upstream} SET amount = amount + 1 WHERE id % 4 = 0")
        lakehouse.epoch()


CHANGES = (
    "UPDATE {upstream} SET amount = amount + 1 WHERE id % {n} = {m}",
    "UPDATE {upstream} SET amount = -amount WHERE id % {n} = {m}",
    "UPDATE {upstream} SET tag = concat('t', (id + {m}) % 3) WHERE id % {n} = {m}",
    "UPDATE {upstream} SET name = IF(name IS NULL, 'named', NULL) WHERE id % {n} = {m}",
    "DELETE FROM {upstream} WHERE id % {n} = {m}",
    "UPDATE {upstream} SET id = id + {new} WHERE id % {n} = {m}",
    "UPDATE {upstream} SET id = {m} + {n} - id WHERE id IN ({m}, {n})",
    "INSERT INTO {upstream} SELECT id + {new}, 'new', 7, current_timestamp(), 't1', -0.0, NULL FROM range({n})",
    "OPTIMIZE {upstream}",
)


def change(lakehouse: Lakehouse, random: random.Random, times: int) -> list[str]:
    """Make random changes to the upstream, and return the statements."""
    done = []
    for _ in range(times):
        n = random.randint(3, 9)
        # New keys: a case makes only few versions.
        new = random.randint(1, 10**12) * 100
        statement = random.choice(CHANGES)
        for name, value in {"n": n, "m": random.randrange(n), "new": new}.items():
            statement = statement.replace(f"{{{name}}}", str(value))
        lakehouse.sql(statement)
        done.append(statement)
    return done


def require_right(lakehouse: Lakehouse, expected: str = EXPECTED) -> int:
    """
    Run a job to its end, compare its view in two ways, and return the number of epochs.

    :param expected: a query of the upstream for the expected rows; it runs without the engine.
    """
    epochs = 0
    while lakehouse.epoch() is not None:
        epochs += 1
        if epochs == 1:
            # This epoch completed what the fault left half done; the others are checked at the end.
            require_view(lakehouse)
        if epochs > MOST_EPOCHS:
            raise WrongError(f"I4: there is still something to do after {epochs} epochs")
    wanted = lakehouse.sql(expected)
    found = lakehouse.view().select(*wanted.columns)
    for side, rows in (("missing", wanted.exceptAll(found)), ("unexpected", found.exceptAll(wanted))):
        differing = rows.limit(3).collect()
        if differing:
            raise WrongError(f"{side}: {differing}")
    return epochs


def require_view(lakehouse: Lakehouse) -> None:
    """Check I1 as of the newest committed epoch, with the package's own comparison."""
    outcome = compare_now(lakehouse.backfill, lakehouse.engine)
    if not outcome.equal:
        raise WrongError(f"I1: epoch {outcome.pinned.epoch}: {outcome}")
