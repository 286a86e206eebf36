"""What all tests share: one Spark session a run, started when the first test asks for it."""

from __future__ import annotations

import atexit
import logging
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from airflow_backfill_provider.core import crash_points
from tests.connect_server import server_conf
from tests.ports import free_port

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

settings.register_profile(
    "tests", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
# Under mutation testing every test is run hundreds of times, on a machine that is busy.
settings.register_profile(
    "mutation", settings.get_profile("tests"), max_examples=30, suppress_health_check=list(HealthCheck)
)
settings.load_profile("tests")


# Tests write many small files and look at them once. On a disk, tests about Delta spend half of their time waiting.
_MEMORY = Path("/dev/shm")
_ENOUGH = 3 << 30
if "TMPDIR" not in os.environ and os.access(_MEMORY, os.W_OK) and shutil.disk_usage(_MEMORY).free > _ENOUGH:
    os.environ["TMPDIR"] = os.environ["SPARK_LOCAL_DIRS"] = str(_MEMORY)
    tempfile.tempdir = None  # asked for before by pytest, perhaps


# For every JVM that a test starts, in whatever process: none lives long enough for Java's second compiler. They use the
# archive of classes that `make test-slow` makes.
_SHORT_LIVED = {"SPARK_SUBMIT_OPTS": "-XX:TieredStopAtLevel=1"}
# The tests' own one lives through all of them, long enough for the second compiler to pay: it nearly halves the time.
_LONG_LIVED = {"SPARK_SUBMIT_OPTS": "-XX:+UseParallelGC"}
os.environ.update(_SHORT_LIVED)


# The tests' data is tiny: compiling code for it, or adapting plans to it, costs more than running it.
_SPARK_CONF = Path(tempfile.mkdtemp(prefix="airflow-backfill-tests-"))
(_SPARK_CONF / "spark-defaults.conf").write_text(
    "spark.sql.codegen.wholeStage false\nspark.sql.codegen.factoryMode NO_CODEGEN\nspark.sql.adaptive.enabled false\n",
    encoding="utf-8",
)
os.environ["SPARK_CONF_DIR"] = str(_SPARK_CONF)
atexit.register(shutil.rmtree, _SPARK_CONF, ignore_errors=True)


_WHOLLY_SLOW = re.compile(r"^pytestmark = \[?pytest\.mark\.(?:slow|spark|airflow|exhaustive)\b", re.MULTILINE)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out files whose tests are all slow where no slow test is asked for: importing them takes seconds."""
    if config.option.markexpr != "not slow" or collection_path.suffix != ".py":
        return None
    return True if _WHOLLY_SLOW.search(collection_path.read_text(encoding="utf-8")) else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Count everything that starts a JVM or Airflow as slow, and what is exhaustive, too."""
    for item in items:
        if any(item.get_closest_marker(marker) for marker in ("spark", "airflow", "exhaustive")):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def spark_port() -> int:
    """Where the tests' Spark listens as a server."""
    return free_port()


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory, spark_port: int) -> Iterator[SparkSession]:
    """
    The one session in which everything is made and looked at that this process does with Spark.

    It is a Spark Connect server, too: for commands and DAGs, which would spend most time on starting their own.
    """
    from airflow_backfill_provider.runtime.spark_session import start_session

    logging.getLogger("py4j").setLevel(logging.WARNING)
    os.environ.update(_LONG_LIVED)
    session = start_session(
        "tests",
        master="local[2]",
        conf={
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
            **server_conf(spark_port),
        },
    )
    os.environ.update(_SHORT_LIVED)
    yield session
    session.stop()


@pytest.fixture
def spark_remote(spark: SparkSession, spark_port: int) -> str:
    """The address of the tests' Spark as a server; it asks for no token."""
    return f"sc://127.0.0.1:{spark_port}"


@pytest.fixture(autouse=True)
def _no_crash_point() -> Iterator[None]:
    """Take out again what a test installed at the crash points."""
    yield
    crash_points.install(None)


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """A folder for tables; its name has what paths may have: spaces, quotes, unicode."""
    folder = tmp_path / "läke o'brien `x\" #1"
    folder.mkdir()
    return folder
