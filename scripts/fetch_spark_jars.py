"""Fetch the jars Spark needs for Delta Lake, once, so that Spark needs no network.

Spark's own Ivy resolves them, and they go into ``<sys.prefix>/share/airflow-backfill/jars``. Jars that Spark ships
itself, mostly in newer versions, are left out: Spark would load its own anyway, and without them the folder is safe on
a class path, and a session starts a second or two sooner. The folder is moved into place only when it is complete, and
a stamp inside makes the next call a no-op. As always with Spark, the environment variable
``DEFAULT_ARTIFACT_REPOSITORY`` names a mirror.
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
from importlib.util import find_spec
from pathlib import Path

COORDINATES = (
    "io.delta:delta-spark_4.2_2.13:4.4.0",  # delta-spark's jars for Spark 4.2; not published for 4.4.1
    "org.postgresql:postgresql:42.7.14",  # reads tables of PostgreSQL
)
JARS = Path(sys.prefix, "share", "airflow-backfill", "jars")
STAMP = ".fetched"  # inside JARS: the coordinates, then the names of the jars
TIMEOUT_SECONDS = 900


class FetchError(Exception):
    """The jars could not be fetched; the message says why and what to do."""


def main() -> int:
    """Fetch the jars unless they exist, and print one line."""
    started = time.monotonic()
    if (present := fetched(JARS)) is not None:
        print(f"Spark jars: {present} in {JARS}, nothing to do")
        return 0
    try:
        count = fetch(JARS)
    except FetchError as error:
        print(f"Spark jars: {error}", file=sys.stderr)
        return 1
    print(f"Spark jars: fetched {count} into {JARS} in {time.monotonic() - started:.0f} s")
    return 0


def fetched(jars: Path) -> int | None:
    """Return how many jars the folder holds, or None if it does not match the coordinates."""
    try:
        coordinates, *names = (jars / STAMP).read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return None
    whole = names and all((jars / name).is_file() for name in names)
    return len(names) if whole and coordinates == ",".join(COORDINATES) else None


def fetch(target: Path) -> int:
    """Resolve the coordinates in a private folder, move them into place and return the number of jars."""
    home = spark_home()
    shipped = {artifact(jar.name) for jar in (home / "jars").glob("*.jar")}
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=target.parent) as work:
        resolved = resolve(home, Path(work, "ivy"))
        names = []
        for jar in sorted(resolved.glob("*.jar")):
            # Ivy's names are <organisation>_<artifact>-<version>.jar.
            if artifact(jar.name.partition("_")[2]) in shipped:
                jar.unlink()
            elif zipfile.is_zipfile(jar):
                names.append(jar.name)
        for coordinate in COORDINATES:
            expected = "{}_{}-{}.jar".format(*coordinate.split(":"))
            if expected not in names:
                msg = f"{expected} is missing among the resolved jars: {', '.join(names) or 'none'}"
                raise FetchError(msg)
        (resolved / STAMP).write_text("\n".join([",".join(COORDINATES), *names]) + "\n", encoding="utf-8")
        if target.exists():
            target.rename(Path(work, "previous"))
        resolved.rename(target)
    return len(names)


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


def resolve(home: Path, ivy: Path) -> Path:
    """Let spark-submit resolve the jars and run a class that does nothing; return the folder of the jars."""
    java = Path(os.environ["JAVA_HOME"], "bin", "java") if os.environ.get("JAVA_HOME") else "java"
    if not shutil.which(java):
        msg = f'Java 17 or newer is needed and "{java}" was not found (see `make install`)'
        raise FetchError(msg)
    command = [
        str(home / "bin" / "spark-submit"),
        *("--packages", ",".join(COORDINATES)),
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
        msg = f"{', '.join(COORDINATES)} could not be resolved; is the network reachable? ({reason.strip()})"
        raise FetchError(msg)
    return ivy / "jars"


if __name__ == "__main__":
    sys.exit(main())
