"""
Builds a jar from a source file in Scala.

Spark brings the compiler, so nothing is needed that an epoch does not need.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from airflow_backfill_provider.applications.pyspark_folder import pyspark_folder
from airflow_backfill_provider.applications.spark_settings import DELTA_PACKAGE, jars_folder, java_command, require_java
from airflow_backfill_provider.core.errors import SparkUnavailableError
from airflow_backfill_provider.core.site import page

COMPILE_SECONDS = 300

_COMPILER = "scala.tools.nsc.Main"


def build_jar(source: Path, target: Path) -> None:
    """
    Compile a source file against the classes of Spark, Hadoop and Delta.

    :param source: the file.
    :param target: the jar to write; an older one is replaced.
    :raises SparkUnavailableError: if Java, PySpark or Delta's jars are missing, or the compiler fails.
    """
    require_java()
    class_path = f"{_spark_jars() / '*'}:{_delta_jars() / '*'}"
    with tempfile.TemporaryDirectory(prefix="airflow-backfill-jar-") as folder:
        built = Path(folder, target.name)
        command = [java_command(), "-cp", class_path, _COMPILER, "-cp", class_path, "-nowarn", "-d", str(built)]
        done = subprocess.run(
            [*command, str(source)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=COMPILE_SECONDS,
            check=False,
        )
        if done.returncode or not built.is_file():
            reason = next((line for line in (done.stdout + done.stderr).splitlines() if "error" in line), "no output")
            raise SparkUnavailableError(
                f"{source.name} could not be compiled with {class_path} ({reason.strip()}); the jars must be those of "
                "one version of Spark and Delta"
            )
        target.parent.mkdir(parents=True, exist_ok=True)
        # Whoever reads the folder meanwhile sees the old jar or the new one.
        arriving = target.with_name(f".{target.name}.arriving")
        shutil.copyfile(built, arriving)
        arriving.replace(target)


def _spark_jars() -> Path:
    spark = pyspark_folder()
    if spark is None or not (spark / "jars").is_dir():
        raise SparkUnavailableError(
            "this Python has no PySpark with jars, which bring the compiler; install pyspark, or build the jar "
            "where it is installed"
        )
    return spark / "jars"


def _delta_jars() -> Path:
    folder = jars_folder()
    if not any("delta-storage" in jar.name for jar in folder.glob("*.jar")):
        raise SparkUnavailableError(
            f"{folder} has no jar delta-storage; put the jars of {DELTA_PACKAGE} there first, see "
            f"{page('how-to/start-spark-faster')}"
        )
    return folder
