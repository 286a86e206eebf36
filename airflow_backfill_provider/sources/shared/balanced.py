"""
Conditions, sums and unions of many terms, as trees that are as low as possible.

A client of a Spark Connect server sends an expression as a message, which may have a hundred levels only. Terms that
are added one by one make a level each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import add, and_, or_
from typing import TypeVar

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

_Term = TypeVar("_Term")


def any_of(conditions: Sequence[Column]) -> Column:
    """Return the condition that one of some conditions holds; false if there is none."""
    return _tree(conditions, or_) if conditions else F.lit(False)


def all_of(conditions: Sequence[Column]) -> Column:
    """Return the condition that all of some conditions hold; true if there is none."""
    return _tree(conditions, and_) if conditions else F.lit(True)


def sum_of(numbers: Sequence[Column]) -> Column:
    """Return the sum of some numbers; 0 if there is none."""
    return _tree(numbers, add) if numbers else F.lit(0).cast("long")


def union_of(frames: Sequence[DataFrame]) -> DataFrame:
    """Return the rows of all frames, which have the same columns."""
    return _tree(frames, lambda first, second: first.unionAll(second))


def _tree(terms: Sequence[_Term], combined: Callable[[_Term, _Term], _Term]) -> _Term:
    if len(terms) == 1:
        return terms[0]
    middle = len(terms) // 2
    return combined(_tree(terms[:middle], combined), _tree(terms[middle:], combined))
