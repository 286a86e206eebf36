"""
A driver of its own, in a process with a JVM of its own: appends a row to a table whenever a line asks for it.

It gets ``{"path": …, "number": …}`` on standard input, and answers with how often it had to try. As an epoch does, it
names a transaction, so a try after a commit that seemed to fail changes nothing.
"""

from __future__ import annotations

import json
import sys

from airflow_backfill_provider.applications.spark_session import start_session
from airflow_backfill_provider.applications.spark_settings import storage_options_from_environment
from airflow_backfill_provider.spark.session import prepare_session

MOST_TRIES = 60


def main(driver: str) -> None:
    """Serve until the input ends."""
    spark = prepare_session(start_session(f"driver {driver}", master="local[1]"), storage_options_from_environment())
    # Conflicts are to be resolved by whoever commits, over and over.
    print(json.dumps({"ready": driver}), flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        row = spark.createDataFrame([(driver, asked["number"])], "driver STRING, number INT").coalesce(1)
        for tries in range(1, MOST_TRIES + 1):
            try:
                (
                    row.write.format("delta")
                    .mode("append")
                    .option("txnAppId", driver)
                    .option("txnVersion", asked["number"])
                    .save(asked["path"])
                )
            except Exception as error:  # noqa: BLE001 - whatever fails is tried again
                reason = f"{type(error).__name__}: {error}".splitlines()[0][:300]
            else:
                print(json.dumps({"tries": tries}), flush=True)
                break
        else:
            print(json.dumps({"failed": reason}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
