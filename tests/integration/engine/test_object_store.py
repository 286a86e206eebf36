"""The options of an object store in Spark, and who can read them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from airflow_backfill_provider.applications.spark_settings import storage_options_to_environment
from airflow_backfill_provider.core.errors import StorageOptionsError
from airflow_backfill_provider.engine.spark_engine import SparkEngine
from airflow_backfill_provider.spark.session import prepare_session

pytestmark = pytest.mark.spark

CHECKOUT = Path(__file__).parents[3]
OPTIONS = {"AWS_ACCESS_KEY_ID": "somebody", "AWS_SECRET_ACCESS_KEY": "very-secret", "AWS_REGION": "eu-central-1"}
NAMES = ("fs.s3a.access.key", "fs.s3a.secret.key", "fs.s3a.endpoint.region")

PROGRAM = """
import sys
from pathlib import Path
from airflow_backfill_provider.engine.spark_engine import SparkEngine
from airflow_backfill_provider.applications.spark_session import start_session
from airflow_backfill_provider.applications.spark_settings import storage_options_from_environment

spark = start_session("secrets", master="local[1]")
SparkEngine(spark, storage_options_from_environment())
assert spark.conf.get("fs.s3a.secret.key") == "very-secret"
for entry in Path("/proc").iterdir():
    if entry.name.isdigit():
        try:
            line = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        assert b"very-secret" not in line, line
spark.stop()
"""


@pytest.fixture
def session(spark):
    """A separate session, so that no other test finds the options."""
    return spark.newSession()


def hadoop(session, name):
    """Return a setting as the readers and writers of tables get it."""
    return session._jsparkSession.sessionState().newHadoopConf().get(name)


def test_the_engine_hands_the_options_to_hadoop(session):
    """Issue part 7: one set of options for deltalake and Spark."""
    SparkEngine(session, OPTIONS)
    assert [hadoop(session, name) for name in NAMES] == ["somebody", "very-secret", "eu-central-1"]


def test_without_options_hadoop_is_left_alone(session):
    SparkEngine(session)
    assert hadoop(session, "fs.s3a.secret.key") is None


def test_what_spark_was_configured_with_stays(session):
    session.conf.set("spark.hadoop.fs.s3a.endpoint.region", "us-west-2")
    prepare_session(session, OPTIONS)
    assert session.conf.get("fs.s3a.endpoint.region", None) != "eu-central-1"
    assert hadoop(session, "fs.s3a.access.key") == "somebody"


def test_an_option_that_spark_could_not_use_is_refused_before_anything_is_read(session):
    """I6."""
    with pytest.raises(StorageOptionsError, match="AZURE_STORAGE_TOKEN"):
        SparkEngine(session, {"AZURE_STORAGE_TOKEN": "very-secret"})


@pytest.mark.exhaustive
def test_no_command_line_shows_a_secret():
    """Spark's configuration is on the JVM's command line, which every user of the machine can read."""
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT), **storage_options_to_environment(OPTIONS)}
    done = subprocess.run(
        [sys.executable, "-"], input=PROGRAM, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "very-secret" not in done.stdout + done.stderr
