"""The log store for S3: of several writers of one version, exactly one has it, whatever happens to the answers."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import IllegalArgumentException
from pyspark.sql import SparkSession

from airflow_backfill_provider.lake.store.object_store import hadoop_settings
from demo.s3_server import S3Server
from tests.integration.s3.proxy import FailingProxy, Fault, Kind

pytestmark = pytest.mark.spark

ROUNDS = 30
EXISTS = "java.nio.file.FileAlreadyExistsException"


class Writer:
    """
    A log store as a driver of its own has it.

    :param settings: Hadoop's settings.
    """

    def __init__(self, spark: SparkSession, settings: dict[str, str]) -> None:
        self._java: Any = spark._jvm
        self._conf = self._java.org.apache.hadoop.conf.Configuration(spark._jsc.sc().hadoopConfiguration())
        for name, value in settings.items():
            self._conf.set(name, value)
        self._store = self._java.airflow_backfill_provider.ConditionalLogStore(self._conf)

    def commit(self, path: str, *lines: str, overwrite: bool = False) -> bool:
        """Commit, and return whether the version was free."""
        actions = self._java.java.util.ArrayList()
        for line in lines:
            actions.add(line)
        try:
            self._store.write(self._java.org.apache.hadoop.fs.Path(path), actions.iterator(), overwrite, self._conf)
        except Py4JJavaError as error:
            if error.java_exception.getClass().getName() == EXISTS:
                return False
            raise
        return True

    def read(self, path: str) -> Sequence[str]:
        """Return a commit's lines."""
        lines = self._store.read(self._java.org.apache.hadoop.fs.Path(path), self._conf)
        found = []
        while lines.hasNext():
            found.append(lines.next())
        return found


def test_one_of_several_writers_has_a_version(spark: SparkSession, s3: S3Server) -> None:
    writers = [Writer(spark, hadoop_settings(s3.storage_options)) for _ in range(3)]
    with ThreadPoolExecutor(len(writers)) as threads:
        for version in range(ROUNDS):
            path = f"{s3.root}/race/_delta_log/{version:020}.json"
            won = [*threads.map(lambda pair: pair[1].commit(path, f"writer {pair[0]}"), enumerate(writers))]  # noqa: B023
            assert won.count(True) == 1
            assert writers[0].read(path) == [f"writer {won.index(True)}"]


def test_an_overwrite_replaces(spark: SparkSession, s3: S3Server) -> None:
    writer, path = Writer(spark, hadoop_settings(s3.storage_options)), f"{s3.root}/over/_delta_log/_last_checkpoint"
    assert writer.commit(path, "one", overwrite=True)
    assert writer.commit(path, "two", "lines", overwrite=True)
    assert writer.read(path) == ["two", "lines"]


def test_a_commit_whose_answer_is_lost_is_a_commit(spark: SparkSession, proxy: FailingProxy) -> None:
    """The client sends it again, and is refused because of its own object."""
    writer, path = Writer(spark, hadoop_settings(proxy.storage_options)), f"{proxy.root}/lost/_delta_log/0.json"
    with proxy.failing(Fault(Kind.LOST), times=1):
        assert writer.commit(path, "mine")
    assert writer.read(path) == ["mine"]
    with proxy.failing(Fault(Kind.LOST), times=1):
        assert not writer.commit(path, "another's")
    assert writer.read(path) == ["mine"]


@pytest.mark.parametrize("status", [500, 503])
def test_a_server_that_is_busy_for_a_while_is_asked_again(
    spark: SparkSession, proxy: FailingProxy, status: int
) -> None:
    writer, path = Writer(spark, hadoop_settings(proxy.storage_options)), f"{proxy.root}/busy/_delta_log/0.json"
    with proxy.failing(Fault(Kind.REFUSED, status=status), times=2):
        assert writer.commit(path, "mine")
    assert writer.read(path) == ["mine"]


def test_a_local_table_is_refused(spark: SparkSession, tmp_path: object) -> None:
    """A file system that cannot create conditionally must not go unnoticed."""
    with pytest.raises(IllegalArgumentException, match="fs.option.create.conditional.overwrite"):
        Writer(spark, {}).commit(f"file://{tmp_path}/0.json", "mine")
