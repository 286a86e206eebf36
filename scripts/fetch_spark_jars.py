"""Fetch the jars that this checkout needs, once, so that nothing needs a network later.

There are three folders in ``<sys.prefix>/share/airflow-backfill``: ``jars`` for Spark, ``s3`` for tables on S3, and
``kafka-broker`` for the Kafka broker of the tests and the demo, whose jars Spark must not load. Spark's own Ivy
resolves them. Of Spark's folders, jars that Spark ships itself, mostly in newer versions, are left out: Spark would
load its own anyway, and without them the folders are safe on a class path, and a session starts a second or two sooner.
A folder is moved into place only when it is complete, and a stamp inside makes the next call a no-op. As always with
Spark, the environment variable ``DEFAULT_ARTIFACT_REPOSITORY`` names a mirror.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Set as AbstractSet
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

STAMP = ".fetched"  # inside a folder: the coordinates, then the names of the jars
TIMEOUT_SECONDS = 900

_SHARED = Path(sys.prefix, "share", "airflow-backfill")


class FetchError(Exception):
    """The jars could not be fetched; the message says why and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JarSet:
    """
    The jars of one folder.

    :param user: what loads them.
    :param coordinates: what is resolved, with all that it depends on.
    :param excluded: dependencies that are not downloaded, as ``organisation:artifact``.
    :param beside_spark: whether they are loaded together with Spark's own jars; those are left out.
    :param of_spark: names of Spark's own jars, without versions, that are copied.
    """

    user: str
    folder: Path
    coordinates: tuple[str, ...]
    excluded: tuple[str, ...] = ()
    beside_spark: bool = False
    of_spark: tuple[str, ...] = ()

    @property
    def stamp(self) -> str:
        """The first line of the stamp."""
        return ",".join(self.coordinates)


SPARK = JarSet(
    user="Spark",
    folder=_SHARED / "jars",
    coordinates=(
        "io.delta:delta-spark_4.2_2.13:4.4.0",  # delta-spark's jars for Spark 4.2; not published for 4.4.1
        "org.postgresql:postgresql:42.7.14",  # reads tables of PostgreSQL
        "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",  # reads topics of Kafka
        "org.apache.spark:spark-avro_2.13:4.2.0",  # decodes records in Avro
    ),
    excluded=("org.apache.hadoop:hadoop-client-api", "org.apache.hadoop:hadoop-client-runtime"),  # 50 MB, and Spark's
    beside_spark=True,
)
_AWS = "2.35.4"
S3 = JarSet(
    user="S3",
    folder=_SHARED / "s3",
    coordinates=(
        "org.apache.hadoop:hadoop-aws:3.5.0",  # the version of Spark's Hadoop
        *(
            f"software.amazon.awssdk:{module}:{_AWS}"
            for module in ("s3", "s3-transfer-manager", "sts", "apache-client", "netty-nio-client")
        ),
        "software.amazon.s3.analyticsaccelerator:analyticsaccelerator-s3:1.3.1",
    ),
    excluded=(
        "software.amazon.awssdk:bundle",  # all of Amazon's services, 690 MB
        "org.apache.hadoop:hadoop-client-api",
        "org.apache.hadoop:hadoop-client-runtime",
        "org.apache.hadoop:hadoop-common",
    ),
    beside_spark=True,
)
BROKER = JarSet(
    user="Kafka broker",
    folder=_SHARED / "kafka-broker",
    coordinates=(
        "org.apache.kafka:kafka_2.13:4.4.0",
        "org.apache.logging.log4j:log4j-slf4j-impl:2.25.3",  # writes the broker's log
    ),
    of_spark=("scala-library",),  # Spark's Ivy never resolves it
)


def main() -> int:
    """Fetch the jars that are missing, and print one line for each folder."""
    with ThreadPoolExecutor() as threads:
        return max(threads.map(provide, (SPARK, S3, BROKER)))


def provide(jars: JarSet) -> int:
    """Fetch jars unless they exist, print one line, and return an exit code."""
    started = time.monotonic()
    if (present := fetched(jars)) is not None:
        print(f"{jars.user} jars: {present} in {jars.folder}, nothing to do")
        return 0
    try:
        count = fetch(jars)
    except FetchError as error:
        print(f"{jars.user} jars: {error}", file=sys.stderr)
        return 1
    print(f"{jars.user} jars: fetched {count} into {jars.folder} in {time.monotonic() - started:.0f} s")
    return 0


def fetched(jars: JarSet) -> int | None:
    """Return how many jars the folder holds, or None if it does not match the coordinates."""
    try:
        coordinates, *names = (jars.folder / STAMP).read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return None
    whole = names and all((jars.folder / name).is_file() for name in names)
    return len(names) if whole and coordinates == jars.stamp else None


def fetch(jars: JarSet) -> int:
    """Resolve the coordinates in a private folder, move them into place and return the number of jars."""
    home = spark_home()
    shipped = {artifact(jar.name): jar for jar in (home / "jars").glob("*.jar")}
    target = jars.folder
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=target.parent) as work:
        resolved = resolve(home, Path(work, "ivy"), jars)
        for name in jars.of_spark:
            shutil.copy(shipped[name], resolved)
        names = complete(resolved, jars, shipped.keys() if jars.beside_spark else frozenset())
        (resolved / STAMP).write_text("\n".join([jars.stamp, *names]) + "\n", encoding="utf-8")
        if target.exists():
            target.rename(Path(work, "previous"))
        resolved.rename(target)
    return len(names)


def complete(resolved: Path, jars: JarSet, left_out: AbstractSet[str]) -> list[str]:
    """Remove the jars of artifacts to leave out, check that no coordinate is missing, and return the jars' names."""
    names = []
    for jar in sorted(resolved.glob("*.jar")):
        # Ivy's names are <organisation>_<artifact>-<version>.jar.
        if artifact(jar.name.partition("_")[2]) in left_out:
            jar.unlink()
        elif zipfile.is_zipfile(jar):
            names.append(jar.name)
    for coordinate in jars.coordinates:
        expected = "{}_{}-{}.jar".format(*coordinate.split(":"))
        if expected not in names:
            msg = f"{expected} is missing among the resolved jars: {', '.join(names) or 'none'}"
            raise FetchError(msg)
    return names


def artifact(name: str) -> str:
    """Return the name of a jar without its version."""
    return re.split(r"-(?=\d)", name, maxsplit=1)[0]


def spark_home() -> Path:
    """Return the folder of the installed pyspark."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        msg = "pyspark is not installed in this environment"
        raise FetchError(msg)
    return Path(spec.origin).parent


def resolve(home: Path, ivy: Path, jars: JarSet) -> Path:
    """Let spark-submit resolve the jars and run a class that does nothing; return the folder of the jars."""
    java = Path(os.environ["JAVA_HOME"], "bin", "java") if os.environ.get("JAVA_HOME") else "java"
    if not shutil.which(java):
        msg = f'Java 17 or newer is needed and "{java}" was not found (see `make install`)'
        raise FetchError(msg)
    command = [
        str(home / "bin" / "spark-submit"),
        *("--packages", ",".join(jars.coordinates)),
        *(["--exclude-packages", ",".join(jars.excluded)] if jars.excluded else []),
        *("--conf", f"spark.jars.ivy={ivy}"),
        *("--class", "org.apache.hadoop.util.VersionInfo"),
        "spark-internal",
    ]
    environment = {**os.environ, "SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1"}
    try:
        done = subprocess.run(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        msg = f"no answer within {TIMEOUT_SECONDS} s; is the network reachable?"
        raise FetchError(msg) from None
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        reason = next((line for line in lines if "Exception" in line), lines[-1] if lines else "no output")
        msg = f"{', '.join(jars.coordinates)} could not be resolved; is the network reachable? ({reason.strip()})"
        raise FetchError(msg)
    return ivy / "jars"


if __name__ == "__main__":
    sys.exit(main())
