"""Archive the classes that Spark loads for a small Delta job, so that the tests' many JVMs start faster.

Java maps such an archive instead of reading, checking and linking some twenty thousand classes anew. It is for this
Java, these jars and this machine; with any other it is ignored. The tests find it beside Delta's jars
(``tests/conftest.py``).
"""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ARCHIVE = Path(sys.prefix, "share", "airflow-backfill", "classes.jsa")
TIMEOUT_SECONDS = 300


def main() -> int:
    """Run the job in a process whose JVM writes the archive when it ends."""
    started = time.monotonic()
    unfinished = ARCHIVE.with_suffix(".unfinished")
    unfinished.unlink(missing_ok=True)
    options = f"-XX:ArchiveClassesAtExit={unfinished} -Xlog:cds=off -Xlog:cds+dynamic=off"
    with tempfile.TemporaryDirectory() as folder:
        job = [sys.executable, __file__, f"{folder}/orders"]
        subprocess.run(job, env={**os.environ, "SPARK_SUBMIT_OPTS": options}, capture_output=True, check=False)
    # The JVM outlives its Python by the time that it takes to write; it takes the right to write away at the end.
    while not unfinished.exists() or unfinished.stat().st_mode & stat.S_IWUSR:
        if time.monotonic() - started > TIMEOUT_SECONDS:
            print("class archive: Java wrote none, so the tests do without", file=sys.stderr)
            return 0
        time.sleep(0.5)
    unfinished.rename(ARCHIVE)
    print(f"class archive: {ARCHIVE.stat().st_size >> 20} MiB in {time.monotonic() - started:.0f} s")
    return 0


def run(path: str) -> None:
    """Write, merge and read a Delta table with its change data feed."""
    from airflow_backfill_provider.engine.session import start_session

    spark = start_session("archive", master="local[2]")
    rows = spark.range(10).selectExpr("id", "CAST(id AS STRING) AS name")
    rows.write.format("delta").option("delta.enableChangeDataFeed", "true").save(path)
    spark.sql(
        f"MERGE INTO delta.`{path}` t USING (SELECT 3 AS id, 'x' AS name) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    ).collect()
    feed = spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 0).load(path)
    feed.groupBy("id").count().collect()
    spark.stop()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        run(sys.argv[1])
    else:
        sys.exit(main())
