"""
What a Spark application needs so that it can read and write Delta tables, without importing Spark.

Jars are taken from where the set-up put them, so that a run resolves nothing; without a set-up, Spark is told the
package's coordinates and resolves it itself.
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

from airflow_backfill_provider.core.errors import SparkUnavailableError

DELTA_PACKAGE = "io.delta:delta-spark_4.2_2.13:4.4.0"
JARS_VARIABLE = "AIRFLOW_BACKFILL_JARS"
STORAGE_OPTIONS_VARIABLE = "AIRFLOW_BACKFILL_STORAGE_OPTIONS"
OLDEST_JAVA = 17

_JAVA_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


def jars_folder() -> Path:
    """Return the folder where the set-up puts Delta's jars: ``AIRFLOW_BACKFILL_JARS``, or in the environment."""
    return Path(os.environ.get(JARS_VARIABLE) or Path(sys.prefix) / "share" / "airflow-backfill" / "jars")


def delta_conf() -> dict[str, str]:
    """
    Return the Spark configuration of every application of this package.

    :raises SparkUnavailableError: if ``AIRFLOW_BACKFILL_JARS`` names a folder without jars.
    """
    conf = {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
    }
    jars = sorted(str(jar) for jar in jars_folder().glob("*.jar"))
    if jars:
        conf["spark.jars"] = ",".join(jars)
    elif os.environ.get(JARS_VARIABLE):
        raise SparkUnavailableError(
            f"{JARS_VARIABLE} names {jars_folder()}, which holds no jars; put {DELTA_PACKAGE} and its dependencies "
            "there, or unset the variable"
        )
    else:
        conf["spark.jars.packages"] = DELTA_PACKAGE
    return conf


def local_conf() -> dict[str, str]:
    """Return what makes Spark quick on one machine; a cluster has its own settings."""
    return {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": str(max(os.cpu_count() or 1, 2)),
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.driver.memory": "2g",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
    }


def require_java() -> None:
    """
    Refuse to start Spark where it could only fail.

    :raises SparkUnavailableError: if there is no Java, or one that is too old.
    """
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    needed = f"install Java {OLDEST_JAVA} or newer (Debian: apt-get install openjdk-17-jre-headless)"
    if java is None or shutil.which(java) is None:
        raise SparkUnavailableError(f"there is no Java on this machine; {needed} or set JAVA_HOME")
    answer = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    version = _JAVA_VERSION.search(answer)
    if version is None or int(version.group(1)) < OLDEST_JAVA:
        raise SparkUnavailableError(f"{java} is not Java {OLDEST_JAVA} or newer; {needed}")


def storage_options_from_environment() -> dict[str, str]:
    """Return the object store's options that a submitter passed on, which must not be on a command line."""
    return {str(name): str(value) for name, value in json.loads(os.environ.get(STORAGE_OPTIONS_VARIABLE, "{}")).items()}


def storage_options_to_environment(options: Mapping[str, str] | None) -> dict[str, str]:
    """Return the environment variable that passes the object store's options on to an application."""
    return {STORAGE_OPTIONS_VARIABLE: json.dumps(dict(options))} if options else {}
