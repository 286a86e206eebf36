"""
Fetches the jars that Spark needs for Delta and the upstreams, once, so that no Spark downloads anything afterwards.

Spark's own Ivy resolves them. Jars that Spark ships itself, mostly in newer versions, are left out: Spark would load
its own anyway, and without them the folder is safe on a class path, and a session starts a second or two sooner. A
folder is moved into place only when it is complete, and a stamp inside makes the next call a no-op. As always with
Spark, the environment variable ``DEFAULT_ARTIFACT_REPOSITORY`` names a mirror.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from airflow_backfill_provider.applications.pyspark_folder import pyspark_folder
from airflow_backfill_provider.applications.spark_settings import (
    S3_FOLDER,
    SHIPPED_WITH_SPARK,
    jars_folder,
    packages,
    require_java,
    spark_environment,
)
from airflow_backfill_provider.core.errors import SparkUnavailableError

STAMP = ".fetched"
"""A file in a folder of jars: the coordinates, then the names of the jars."""

TIMEOUT_SECONDS = 900

_AWS = "2.35.4"


@dataclass(frozen=True, slots=True, kw_only=True)
class JarSet:
    """
    The jars of one folder.

    :param user: what loads them.
    :param folder: where they are put.
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


def spark_jars() -> JarSet:
    """Return the jars that every Spark of this package needs."""
    return JarSet(
        user="Spark", folder=jars_folder(), coordinates=packages(), excluded=SHIPPED_WITH_SPARK, beside_spark=True
    )


def s3_jars() -> JarSet:
    """Return the jars with which Spark reads and writes tables on S3."""
    return JarSet(
        user="S3",
        folder=jars_folder().parent / S3_FOLDER,
        coordinates=(
            "org.apache.hadoop:hadoop-aws:3.5.0",  # the version of Spark's Hadoop
            *(
                f"software.amazon.awssdk:{module}:{_AWS}"
                for module in ("s3", "s3-transfer-manager", "sts", "apache-client", "netty-nio-client")
            ),
            "software.amazon.s3.analyticsaccelerator:analyticsaccelerator-s3:1.3.1",
        ),
        # The bundle has all of Amazon's services, 690 MB.
        excluded=("software.amazon.awssdk:bundle", *SHIPPED_WITH_SPARK, "org.apache.hadoop:hadoop-common"),
        beside_spark=True,
    )


def fetched(jars: JarSet) -> int | None:
    """Return how many jars the folder holds, or ``None`` if it does not match the coordinates."""
    try:
        coordinates, *names = (jars.folder / STAMP).read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return None
    whole = names and all((jars.folder / name).is_file() for name in names)
    return len(names) if whole and coordinates == jars.stamp else None


def fetch(jars: JarSet) -> int:
    """
    Resolve the coordinates in a private folder, and move the jars into place.

    :returns: the number of jars.
    :raises SparkUnavailableError: if PySpark, Java or a jar is missing, or the network does not answer.
    """
    home = _spark_home()
    shipped = {artifact(jar.name): jar for jar in (home / "jars").glob("*.jar")}
    target = jars.folder
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=target.parent) as work:
        resolved = _resolve(home, Path(work, "ivy"), jars)
        for name in jars.of_spark:
            shutil.copy(shipped[name], resolved)
        names = complete(resolved, jars, shipped.keys() if jars.beside_spark else frozenset())
        (resolved / STAMP).write_text("\n".join([jars.stamp, *names]) + "\n", encoding="utf-8")
        if target.exists():
            target.rename(Path(work, "previous"))
        resolved.rename(target)
    return len(names)


def complete(resolved: Path, jars: JarSet, left_out: Collection[str]) -> list[str]:
    """
    Remove the jars of artifacts to leave out, and check that no coordinate is missing.

    :param resolved: the folder of the resolved jars.
    :param left_out: names of artifacts.
    :returns: the names of the jars that stay.
    :raises SparkUnavailableError: if the jar of a coordinate is missing.
    """
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
            raise SparkUnavailableError(
                f"{expected} is missing among the resolved jars: {', '.join(names) or 'none'}; try again"
            )
    return names


def artifact(name: str) -> str:
    """Return the name of a jar without its version."""
    return re.split(r"-(?=\d)", name, maxsplit=1)[0]


def _spark_home() -> Path:
    folder = pyspark_folder()
    if folder is None or not (folder / "jars").is_dir():
        raise SparkUnavailableError(
            "this Python has no PySpark with jars, which resolves Delta's; install airflow-backfill-provider[spark]"
        )
    return folder


def _resolve(home: Path, ivy: Path, jars: JarSet) -> Path:
    """Let ``spark-submit`` resolve the jars and run a class that does nothing; return the folder of the jars."""
    require_java()
    command = [
        str(home / "bin" / "spark-submit"),
        *("--packages", ",".join(jars.coordinates)),
        *(["--exclude-packages", ",".join(jars.excluded)] if jars.excluded else []),
        *("--conf", f"spark.jars.ivy={ivy}"),
        *("--class", "org.apache.hadoop.util.VersionInfo"),
        "spark-internal",
    ]
    try:
        done = subprocess.run(
            command,
            env={**spark_environment(), "SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise SparkUnavailableError(
            f"the jars for {jars.user} did not arrive within {TIMEOUT_SECONDS} s; look whether the network answers, or "
            "name a mirror in DEFAULT_ARTIFACT_REPOSITORY"
        ) from None
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        reason = next((line for line in lines if "Exception" in line), lines[-1] if lines else "no output")
        raise SparkUnavailableError(
            f"{jars.stamp} could not be resolved ({reason.strip()}); look whether the network answers, or name a "
            "mirror in DEFAULT_ARTIFACT_REPOSITORY"
        )
    return ivy / "jars"
