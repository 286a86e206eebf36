"""An expression of Spark that is computed once and used several times."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention


def once(value: Column, use: Callable[[Column], Column]) -> Column:
    """
    Return what a function makes of a value that is computed once for each row.

    Spark may compute an expression again wherever it is used. An element of an array has been computed.

    :param use: returns an expression of the value.
    """
    return F.get(F.transform(F.array(value), use), F.lit(0))
