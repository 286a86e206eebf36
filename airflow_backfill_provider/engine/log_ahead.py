"""
Lets Spark read the log of a table in an object store while other things are checked.

Before it writes, Delta reads all commits since the last checkpoint, each by two requests that wait for their answers.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from airflow_backfill_provider.core.location import is_local
from airflow_backfill_provider.engine.stamped_table import StampedTable

logger = logging.getLogger(__name__)


@contextmanager
def log_read_ahead(table: StampedTable) -> Iterator[None]:
    """Read the log of a table that will be written to in the background; wait for it at the end, unless it fails."""
    if is_local(table.path):
        yield
        return
    # After an error nothing waits for it: a store that does not answer is asked again for minutes.
    reading = threading.Thread(target=_read_log, args=(table,), name="read the log ahead", daemon=True)
    reading.start()
    yield
    reading.join()


def _read_log(table: StampedTable) -> None:
    try:
        # Delta keeps the state that it computes for this, as long as the table has no new commit.
        table.spark.sql(f"DESCRIBE DETAIL {table.sql_name}").collect()
    except (PySparkException, Py4JError, OSError) as error:
        logger.debug("%s was not read ahead: %s", table.path, error)
