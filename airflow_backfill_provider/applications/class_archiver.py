"""Creates the archive of :mod:`airflow_backfill_provider.applications.class_archive`."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from airflow_backfill_provider.applications import spark_settings
from airflow_backfill_provider.applications.class_archive import QUIET, archive_path
from airflow_backfill_provider.applications.inherited_environment import inherited_environment
from airflow_backfill_provider.core.errors import SparkUnavailableError

TIMEOUT_SECONDS = 900

TRAINING = Path(__file__).with_name("class_training.py")
"""The Spark application whose classes are archived."""


def make_class_archive() -> Path:
    """
    Create a new archive, in about a minute.

    :returns: the archive's path; every local Spark that this package starts uses it.
    :raises SparkUnavailableError: if Java or the folder of jars is missing, or Java writes no archive.
    """
    spark_settings.require_java()
    jars = spark_settings.jars_folder()
    archive = archive_path(jars, spark_settings.java_command())
    if archive is None or not any(jars.glob("*.jar")):
        raise SparkUnavailableError(
            f"an archive of classes needs Delta's jars in {jars}, and pyspark; install "
            "airflow-backfill-provider[spark] and put Delta's jars there first"
        )
    with tempfile.TemporaryDirectory(dir=jars, prefix=".classes-") as folder:
        written = Path(folder, "classes.jsa")
        done = _train(Path(folder), f'"-XX:ArchiveClassesAtExit={written}" {QUIET}')
        if done.returncode or not written.exists():
            last = [line for line in done.stderr.splitlines() if line.strip()][-1:]
            raise SparkUnavailableError(
                f"Java wrote no archive of classes to {jars} (exit code {done.returncode}): "
                f"{' '.join(last) or 'no output'}; correct the cause, then try again"
            )
        written.rename(archive)
    for former in set(jars.glob("classes-*.jsa")) - {archive}:
        former.unlink()
    return archive


def _train(folder: Path, options: str) -> subprocess.CompletedProcess[str]:
    """Run the small backfill; its JVM writes the archive before ``spark-submit`` ends."""
    environment = {**inherited_environment(), **spark_settings.spark_environment()}
    spark_submit = shutil.which("spark-submit", path=environment["PATH"]) or "spark-submit"
    conf = spark_settings.spark_conf("local[2]", {"spark.driver.defaultJavaOptions": options})
    return subprocess.run(
        [
            spark_submit,
            *("--master", "local[2]"),
            *(option for name, value in conf.items() for option in ("--conf", f"{name}={value}")),
            str(TRAINING),
            str(folder),
        ],
        env=environment,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
