"""Archive the classes that Spark loads, so that the tests' many JVMs start faster."""

from __future__ import annotations

import sys
import time

from airflow_backfill_provider.applications.class_archiver import make_class_archive
from airflow_backfill_provider.core.errors import SparkUnavailableError

if __name__ == "__main__":
    started = time.monotonic()
    try:
        archive = make_class_archive()
    except SparkUnavailableError as error:
        sys.exit(f"class archive: {error}")
    print(f"class archive: {archive.stat().st_size >> 20} MiB in {time.monotonic() - started:.0f} s")
