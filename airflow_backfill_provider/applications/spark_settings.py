"""
The settings with which a Spark application can read and write Delta tables. This module does not import Spark.

The jars come from the folder where the set-up put them, so an application downloads nothing. Without that folder, Spark
gets the coordinates of Delta's package, and downloads it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from airflow_backfill_provider.applications import class_archive
from airflow_backfill_provider.applications.collector import collector_options
from airflow_backfill_provider.applications.private_folder import private_folder
from airflow_backfill_provider.core.errors import (
    BackfillError,
    SparkSettingError,
    SparkUnavailableError,
    StorageOptionsError,
)
from airflow_backfill_provider.core.log_store import log_store_settings
from airflow_backfill_provider.sources import spark_packages

DELTA_PACKAGE = "io.delta:delta-spark_4.2_2.13:4.4.0"
"""What Spark needs for any job in addition to its own jars; kinds of sources name what they need (:func:`packages`)."""

S3_FOLDER = "s3"
"""The name of the folder beside Delta's jars that has Spark's connector to S3, if the set-up has fetched it."""

JARS_VARIABLE = "AIRFLOW_BACKFILL_JARS"
STORAGE_OPTIONS_VARIABLE = "AIRFLOW_BACKFILL_STORAGE_OPTIONS"
REMOTE_VARIABLE = "SPARK_REMOTE"
TOKEN_VARIABLE = "SPARK_CONNECT_AUTHENTICATE_TOKEN"  # noqa: S105 - a name
SESSION_CONF_VARIABLE = "AIRFLOW_BACKFILL_SESSION_CONF"
APPLICATION_VARIABLE = "AIRFLOW_BACKFILL_APPLICATION"
OLDEST_JAVA = 17

FIRST_COMPILER_ALONE = "-XX:TieredStopAtLevel=1"
"""The option that turns off Java's second compiler."""

FEW_ROWS = 500_000
"""
An application that reads at most this many rows is done before Java's second compiler pays off.

On two hyperthreads, with eleven columns, the compiler saved elapsed time from a million rows on, and processor time
only with more.
"""

_DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.showConsoleProgress": "false",
    # Spark's own pattern, and Azure's names of secrets: these must not appear in Spark's UI or its event log.
    "spark.redaction.regex": r"(?i)secret|password|token|access[.]?key|account[.]key|encryption[.]key",
}

_PYTHON = {
    # By default, PySpark tells Java the line of Python for every column that it makes, which takes three quarters of
    # the time. It is only for messages of errors, and ours name the job's line.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
}

_MEMORY = {
    # Rows that are kept on disk are written by Java's serialization, in batches of four megabytes or more. It remembers
    # what it wrote until it is reset, by default after a hundred objects: for each task, these did not fit.
    "spark.serializer.objectStreamReset": "10",
}

_S3 = {
    # The class is loaded when the first table on S3 is opened.
    **log_store_settings(),
    # Before it creates a file, S3A looks whether there is one, or a folder, of that name. Names of data files are
    # unique, and commits are conditional, so these two requests per file find nothing.
    "spark.hadoop.fs.s3a.performance.flags": "create",
}
"""Without effect on other tables than those on S3."""

SHIPPED_WITH_SPARK = ("org.apache.hadoop:hadoop-client-api", "org.apache.hadoop:hadoop-client-runtime")
"""What the connector to Kafka depends on, 50 MB that every Spark has."""

AVRO_LIMITS = " ".join(
    f"-Dorg.apache.avro.limits.{name}.maxLength={most}"
    for name, most in {"bytes": 64 << 20, "string": 64 << 20, "collectionItems": 8 << 20}.items()
)
"""
Java's options for the longest values that Avro makes room for.

A damaged record may claim a length of gigabytes, and Avro allocates it before it looks for the bytes. Java then ends
for lack of memory, on every attempt. With a limit, the record is unreadable.
"""

_CLUSTER = {f"spark.{process}.defaultJavaOptions": AVRO_LIMITS for process in ("driver", "executor")}

_STRINGS = TypeAdapter(dict[str, str])

_JAVA_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


def jars_folder() -> Path:
    """Return the folder of Delta's jars: ``AIRFLOW_BACKFILL_JARS``, or a folder in the Python environment."""
    return Path(os.environ.get(JARS_VARIABLE) or Path(sys.prefix) / "share" / "airflow-backfill" / "jars")


def packages() -> tuple[str, ...]:
    """Return what Spark needs in addition to its own jars: Delta, and what the kinds of sources read with."""
    return (DELTA_PACKAGE, *spark_packages())


def is_local(master: str) -> bool:
    """Return whether a Spark master runs in a process on this machine."""
    return master.startswith("local")


def spark_conf(master: str, conf: Mapping[str, str] | None = None, *, rows: int | None = None) -> dict[str, str]:
    """
    Return the Spark configuration of an application of this package.

    :param master: Spark's master; a local one gets settings that make Spark fast there, a cluster keeps its own.
    :param conf: the user's configuration, which goes before this package's.
    :param rows: the most rows that the application reads, if known.
    :raises SparkUnavailableError: if ``AIRFLOW_BACKFILL_JARS`` names a folder without jars.
    """
    conf = conf or {}
    own = _local_conf(conf, rows) if is_local(master) else _CLUSTER
    return {**_DELTA, **_PYTHON, **_MEMORY, **_S3, **_jars_conf(master), **own, **conf}


def spark_environment() -> dict[str, str]:
    """Return the environment variables that a process needs, in addition to its own, to start Spark."""
    binaries = str(Path(sys.executable).parent)
    environment = {
        # spark-submit looks for its Python on the PATH, and workers must be of the driver's version.
        "PATH": os.pathsep.join([binaries, os.environ.get("PATH", "")]),
        "PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON", sys.executable),
    }
    if "utf" not in (os.environ.get("LC_ALL") or os.environ.get("LC_CTYPE") or os.environ.get("LANG") or "").lower():
        # Under the POSIX locale, Java cannot open files with non-ASCII names.
        environment["LC_ALL"] = "C.UTF-8"
    return environment


def _jars_conf(master: str) -> dict[str, str]:
    folder = jars_folder()
    jars = sorted(str(jar) for jar in folder.glob("*.jar"))
    if jars and is_local(master):
        # Local executors need no copies of the jars, and with a class path Spark starts one or two seconds sooner.
        folders = [folder, *(found for found in [folder.parent / S3_FOLDER] if found.is_dir())]
        return {"spark.driver.extraClassPath": os.pathsep.join(str(found / "*") for found in folders)}
    if jars:
        return {"spark.jars": ",".join(jars)}
    if os.environ.get(JARS_VARIABLE):
        raise SparkUnavailableError(
            f"{JARS_VARIABLE} is set to {folder}, which has no jars; put {DELTA_PACKAGE} and its dependencies there, "
            "or unset the variable"
        )
    return {
        "spark.jars.packages": ",".join(packages()),
        "spark.jars.excludes": ",".join(SHIPPED_WITH_SPARK),
    }


def _java_options(conf: Mapping[str, str], rows: int | None) -> list[str]:
    """
    Return the options that limit Avro, and those that make Java start and end sooner.

    The latter are a garbage collector (see :mod:`.collector`), an archive of classes, if there is one (see
    :mod:`.class_archive`), and for few rows the option that turns off the second compiler.
    """
    archive = class_archive.archive_path(jars_folder(), java_command())
    is_short = rows is not None and rows <= FEW_ROWS
    options = [AVRO_LIMITS, *collector_options(conf, is_short=is_short)]
    if archive is not None and archive.exists():
        options.append(class_archive.java_options(archive))
    if is_short:
        options.append(FIRST_COMPILER_ALONE)
    return options


def _local_conf(conf: Mapping[str, str], rows: int | None) -> dict[str, str]:
    return {
        "spark.driver.defaultJavaOptions": " ".join(_java_options(conf, rows)),
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": str(max(os.cpu_count() or 1, 2)),
        "spark.databricks.delta.snapshotPartitions": "1",
        # The changes of an epoch are kept for a few reads. To look for a short form of each value takes longer.
        "spark.sql.inMemoryColumnarStorage.compressed": "false",
        "spark.driver.memory": "2g",
        # Each task that groups, sorts or joins clears a page of memory first. Spark's own pages, up to 64 MB, are for
        # large partitions, but an epoch has dozens of tasks with a few rows.
        "spark.buffer.pageSize": "4m",
        # Nothing is stored there, but Spark creates the folder, by default in the working directory.
        "spark.sql.warehouse.dir": str(private_folder() / "warehouse"),
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
    }


def java_command() -> str:
    """Return the command of the Java that Spark will start, from ``JAVA_HOME`` or the ``PATH``."""
    home = os.environ.get("JAVA_HOME")
    return str(Path(home) / "bin" / "java") if home else "java"


def require_java() -> None:
    """
    Check that Spark can start.

    :raises SparkUnavailableError: if there is no Java, or it is too old.
    """
    java = shutil.which(java_command())
    needed = f"install Java {OLDEST_JAVA} or newer (Debian: apt-get install openjdk-17-jre-headless)"
    if java is None:
        raise SparkUnavailableError(f"there is no Java on this machine; {needed} or set JAVA_HOME")
    answer = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    version = _JAVA_VERSION.search(answer)
    if version is None or int(version.group(1)) < OLDEST_JAVA:
        raise SparkUnavailableError(f"{java} is not Java {OLDEST_JAVA} or newer; {needed}")


def storage_options_from_environment() -> dict[str, str]:
    """
    Return the object store's options that the submitter passed in the environment.

    :raises StorageOptionsError: if the variable is not a JSON object of strings; its value may be secret, so the
        message does not quote it.
    """
    return _strings(STORAGE_OPTIONS_VARIABLE, StorageOptionsError)


def storage_options_to_environment(options: Mapping[str, str] | None) -> dict[str, str]:
    """Return the environment variable that passes the object store's options to an application."""
    return {STORAGE_OPTIONS_VARIABLE: json.dumps(dict(options))} if options else {}


def session_conf_from_environment() -> dict[str, str]:
    """
    Return the configuration that the submitter passed for the session on a Spark Connect server.

    :raises SparkSettingError: if the variable is not a JSON object of strings.
    """
    return _strings(SESSION_CONF_VARIABLE, SparkSettingError)


def _strings(variable: str, error: type[BackfillError]) -> dict[str, str]:
    try:
        return _STRINGS.validate_json(os.environ.get(variable, "{}"), strict=True)
    except ValidationError:
        raise error(
            f'{variable} is not a JSON object of strings; unset it, or write it as {{"NAME": "value"}}'
        ) from None


def session_conf_to_environment(conf: Mapping[str, object]) -> dict[str, str]:
    """Return the environment variable that passes a session's configuration; it may hold secrets."""
    return {SESSION_CONF_VARIABLE: json.dumps({name: str(value) for name, value in conf.items()})} if conf else {}
