"""Whether Spark itself fails on some rows of a query."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame


def fails(result: Callable[[], DataFrame]) -> bool:
    """
    Compute all rows and columns of a result, and return whether Spark fails.

    No row is brought to Python, which cannot hold every instant that Spark can.

    :param result: returns the result; Spark may refuse it, too.
    """
    try:
        result().write.format("noop").mode("overwrite").save()
    except PySparkException:
        return True
    return False
