"""
The file system that the tests give Spark: Hadoop's own for local files, without a process for each file.

``python -m tests.local_files`` builds it.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from zipfile import ZipFile

SOURCE = Path(__file__).with_name("LocalFiles.scala")
JAR = Path(sys.prefix) / "share" / "airflow-backfill" / "tests" / "local-files.jar"

_SETTINGS = {
    "spark.hadoop.fs.file.impl": "airflow.backfill.tests.LocalFiles",
    "spark.hadoop.fs.AbstractFileSystem.file.impl": "airflow.backfill.tests.LocalFilesOfContexts",
}


def put_into(folder: Path) -> Mapping[str, str]:
    """
    Put the classes into a folder on Spark's class path, if they are built.

    :returns: the settings that make Spark use them.
    """
    if not JAR.is_file():
        return {}
    with ZipFile(JAR) as jar:
        jar.extractall(folder)
    return _SETTINGS


if __name__ == "__main__":
    from airflow_backfill_provider.applications.scala_jar import build_jar
    from airflow_backfill_provider.core.errors import SparkUnavailableError

    try:
        build_jar(SOURCE, JAR)
    except SparkUnavailableError as error:
        sys.exit(f"local files: {error}")
