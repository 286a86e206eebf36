"""What all tests share: one Spark for a run of the tests, started when the first test asks for it."""

from __future__ import annotations

import atexit
import gc
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from airflow_backfill_provider.core.epoch import crash_points
from tests import exhaustive_run, local_files, seconds, selection

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from xdist.remote import Producer
    from xdist.scheduler.protocol import Scheduling

settings.register_profile(
    "tests",
    deadline=None,
    derandomize=True,
    max_examples=50,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
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


# For every JVM that a test starts, in whatever process: none lives long enough for Java's second compiler, and several
# share the memory. `make test` starts too few of them for an archive of classes, which takes longer to make than it
# saves.
_SHORT_LIVED = {"SPARK_SUBMIT_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
# The tests' own one lives through all of them, long enough for the second compiler to pay, if it leaves alone what is
# not called most: in its usual way it takes half of the time of the first minutes. What the first compiler makes of all
# the classes does not fit into the usual memory for compiled code, and Java would drop it and compile it again.
_LONG_LIVED = {
    "SPARK_SUBMIT_OPTS": "-Xms2g -XX:+UseParallelGC -XX:MetaspaceSize=512m -XX:ReservedCodeCacheSize=512m "
    "-XX:Tier4InvocationThreshold=25000 "
    "-XX:Tier4MinInvocationThreshold=5000 -XX:Tier4CompileThreshold=50000 -XX:Tier4BackEdgeThreshold=200000"
}
os.environ.update(_SHORT_LIVED)


def _memory() -> str:
    """
    Return how much memory the tests' own JVM gets: a quarter of what there is, from 2 to 6 GB.

    Killed clients leave sessions and cached tables behind, so that what it cannot free grows to more than a gigabyte.
    With 2 GB, it spent a quarter of its time on collecting garbage, and with 4 GB an eighth.
    """
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = Path("/sys/fs/cgroup/memory.max")
    if limit.exists() and (most := limit.read_text(encoding="utf-8").strip()).isdecimal():
        whole = min(whole, int(most))
    return f"{min(max(whole >> 32, 2), 6)}g"


# The tests' data is tiny: compiling code for it, or adapting plans to it, costs more than running it. And no test looks
# at Spark's own pages, for which it keeps the plans of a thousand queries in memory.
_SPARK_CONF = Path(tempfile.mkdtemp(prefix="airflow-backfill-tests-"))
_DEFAULTS = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    # Each broadcast of a few rows takes a megabyte until Java collects its plan. Spark would give them most of the
    # memory. Plans and sessions need the rest and more, and then Java does nothing but collect garbage.
    "spark.memory.fraction": "0.3",
    # A VACUUM would list a folder of ten files in ten thousand tasks.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
    # Each test has tables of its own, and Delta keeps the plans of the last ten thousand: they fill the memory.
    "spark.databricks.delta.delta.log.cacheSize": "40",
    "spark.sql.ui.retainedExecutions": "10",
    "spark.ui.retainedJobs": "10",
    "spark.ui.retainedStages": "10",
    "spark.ui.retainedTasks": "100",
    # A text of each plan, for the same pages: the shortest one.
    "spark.sql.ui.explainMode": "simple",
    # Each thread that reads from S3 keeps the session alive in which it started, with the plans of its tables.
    "spark.hadoop.fs.s3a.analytics.accelerator.physicalio.thread.pool.size": "4",
}
(_SPARK_CONF / "spark-defaults.conf").write_text(
    "".join(f"{name} {value}\n" for name, value in {**_DEFAULTS, **local_files.put_into(_SPARK_CONF)}.items()),
    encoding="utf-8",
)
os.environ["SPARK_CONF_DIR"] = str(_SPARK_CONF)
atexit.register(shutil.rmtree, _SPARK_CONF, ignore_errors=True)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let the tests of the engine make their tables elsewhere."""
    parser.addoption(
        "--store",
        choices=["local", "s3"],
        default="local",
        help="where tests/integration/engine makes its tables: in a local folder, or in a bucket (make s3-server)",
    )
    parser.addoption(
        "--record-seconds",
        action="store_true",
        help="write down how long each file takes (make test-slow ARGS=--record-seconds, and test-exhaustive)",
    )


def pytest_configure(config: pytest.Config) -> None:
    """
    Record how long the tests take, where their results come together.

    Collect garbage more rarely, because importing Airflow, Spark and thousands of tests makes objects that stay.
    """
    gc.set_threshold(100_000, 20, 100)
    if config.option.record_seconds and "PYTEST_XDIST_WORKER" not in os.environ:
        config.pluginmanager.register((exhaustive_run if _is_exhaustive(config) else seconds).Recorder())


def _is_exhaustive(config: pytest.Config) -> bool:
    return bool(config.option.markexpr == exhaustive_run.MARKERS)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out files without a test that is asked for."""
    return True if selection.has_nothing_to_play(collection_path, config.option.markexpr) else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """
    Count everything that starts a JVM or Airflow as slow, and what is exhaustive, too.

    Put what takes longest first.
    """
    for item in items:
        if any(item.get_closest_marker(marker) for marker in ("spark", "airflow", "exhaustive")):
            item.add_marker(pytest.mark.slow)
        if item.get_closest_marker("slow") and not selection.says_that_tests_are_slow(item.path):
            raise pytest.UsageError(f"{item.nodeid} is slow, but nothing in its file says so; mark it there")
    took = selection.seconds_of_units(exhaustive_run.seconds() if _is_exhaustive(config) else seconds.recorded())
    items.sort(key=lambda item: selection.rank(item.nodeid, took))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Scheduling | None:
    """Let one process play a whole folder whose tests share a server."""
    from tests.scheduling import UnitScheduling

    return UnitScheduling(config, log) if config.getvalue("dist") == "loadfile" else None


def pytest_collection_finish() -> None:
    """Let the collector leave alone what was imported; looking through it again and again took a tenth of the time."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def shared_spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[SparkSession, int]]:
    """A session on the one Spark of this run of the tests, and where it listens as a Spark Connect server."""
    from tests.shared_spark import shared_spark

    os.environ.update(_LONG_LIVED)
    own = tmp_path_factory.getbasetemp()
    folder = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
    conf = {
        "spark.driver.memory": _memory(),
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
    }
    with shared_spark(folder, conf) as (session, port):
        os.environ.update(_SHORT_LIVED)
        yield session, port


@pytest.fixture(scope="session")
def spark(shared_spark: tuple[SparkSession, int]) -> SparkSession:
    """
    The one session in which everything is made and looked at that this process does with Spark.

    It is on a Spark Connect server, too: for commands and DAGs, which would spend most time on starting their own.
    """
    return shared_spark[0]


@pytest.fixture
def spark_remote(shared_spark: tuple[SparkSession, int]) -> str:
    """The address of the tests' Spark as a server; it asks for no token."""
    return f"sc://127.0.0.1:{shared_spark[1]}"


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
