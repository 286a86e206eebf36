"""
Lets Spark read the log of a view in an object store while the protocol reads and writes its own tables.

Before it writes, Delta reads all commits since the last checkpoint, each by two requests that wait for their answers.
"""

from __future__ import annotations

import logging
import threading

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from airflow_backfill_provider.core.errors import BackfillError
from airflow_backfill_provider.core.job.sql import quote
from airflow_backfill_provider.core.location import is_local
from airflow_backfill_provider.spark.session import pin_settings

logger = logging.getLogger(__name__)


class LogPreloader:
    """
    Reads the log of an engine's view in the background.

    :param spark: the session that writes to the view.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._reading: threading.Thread | None = None
        self._ran_last = ""
        self._read_last = ""

    def before_epoch(self, view: str) -> None:
        """
        Begin to read a view's log, unless that was done after the last epoch, or the view is local.

        :param view: the view's canonical location; there may be no table yet.
        """
        if view != self._read_last:
            self._begin(view)

    def after_epoch(self, view: str) -> None:
        """Begin to read a view's log for the next epoch: who ran two will probably run a third."""
        if view == self._ran_last:
            self._begin(view)
            self._read_last = view
        self._ran_last = view

    def wait(self) -> None:
        """Wait until nothing is being read."""
        if self._reading is not None:
            self._reading.join()

    def _begin(self, location: str) -> None:
        if is_local(location) or (self._reading is not None and self._reading.is_alive()):
            return
        self._reading = threading.Thread(target=self._read, args=(location,), name="read the log ahead", daemon=True)
        self._reading.start()

    def _read(self, location: str) -> None:
        """Read a log; if that fails, nothing else changes."""
        try:
            # Other code may have changed the session, and Delta keeps the state that it computes here, as long as the
            # table has no new commit.
            pin_settings(self._spark)
            self._spark.sql(f"DESCRIBE DETAIL delta.{quote(location)}")
        except (PySparkException, Py4JError, OSError, BackfillError) as error:
            logger.debug("%s was not read ahead: %s", location, error)
