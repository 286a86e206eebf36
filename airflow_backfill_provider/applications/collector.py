"""
Chooses Java's garbage collector for a Spark on this machine, unless somebody has chosen one.

Java's own choice, G1, collects while the program runs, so that the program never stops for long. A backfill has nobody
who waits for an answer, and on a few cores G1 takes its time from the tasks.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from airflow_backfill_provider.applications.pyspark_folder import pyspark_folder

PARALLEL = "-XX:+UseParallelGC"
"""Stops the tasks to collect, and then uses all cores: takes the least time of many tasks."""

SERIAL = "-XX:+UseSerialGC"
"""Uses one core, and needs the least memory."""

_CHOICE = re.compile(r"-XX:\+Use\w*GC\b")

_VARIABLES = ("JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS")


def collector_options(conf: Mapping[str, str], *, is_short: bool) -> list[str]:
    """
    Return the option that chooses a collector.

    :param conf: the user's Spark configuration.
    :param is_short: whether the application reads few rows.
    :returns: nothing if the user's configuration, Spark's defaults or the environment may have chosen one: Java does
        not start with two.
    """
    # A user's default options need no look: they take the place of those that this package would add to.
    of_user = str(conf.get("spark.driver.extraJavaOptions", ""))
    places = [of_user, *(os.environ.get(name, "") for name in _VARIABLES), _spark_defaults()]
    if any(map(_CHOICE.search, places)):
        return []
    return [SERIAL if is_short else PARALLEL]


def _spark_defaults() -> str:
    """Return the text of the file with Spark's defaults, if there is one."""
    # PySpark's own Spark is the one that runs if no other is named.
    home = os.environ.get("SPARK_HOME") or pyspark_folder()
    folder = os.environ.get("SPARK_CONF_DIR") or (home and Path(home, "conf"))
    if folder is None:
        return ""
    try:
        return Path(folder, "spark-defaults.conf").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
