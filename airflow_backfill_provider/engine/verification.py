"""Whether a view has exactly the rows that its query gives; compared row by row, duplicates counted."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import MapType

from airflow_backfill_provider.engine.source import column

SAMPLE_ROWS = 5


@dataclass(frozen=True, slots=True)
class Verification:
    """
    The outcome of a comparison.

    :param expected_rows: rows that the query gives.
    :param missing: of those, rows that the view does not have.
    :param unexpected: rows that the view has and the query does not give.
    :param sample: a few differing rows as text, each with ``missing`` or ``unexpected`` before it.
    """

    expected_rows: int
    missing: int
    unexpected: int
    sample: tuple[str, ...]

    @property
    def equal(self) -> bool:
        """Whether there is no difference."""
        return not (self.missing or self.unexpected)


def compare(expected: DataFrame, view: DataFrame) -> Verification:
    """
    Compare all rows and columns, hidden key columns included.

    :param expected: the query's rows, with the view's columns.
    :param view: the view's table.
    """
    comparable = [_comparable(expected, name) for name in expected.columns]
    wanted = expected.select(*comparable)
    found = view.select(*comparable)
    missing, unexpected = wanted.exceptAll(found), found.exceptAll(wanted)
    sample: list[str] = []
    counts = []
    for kind, rows in (("missing", missing), ("unexpected", unexpected)):
        count = rows.count()
        counts.append(count)
        if count:
            sample += [f"{kind}: {row.asDict(recursive=True)}" for row in rows.limit(SAMPLE_ROWS).collect()]
    return Verification(expected_rows=wanted.count(), missing=counts[0], unexpected=counts[1], sample=tuple(sample))


def _comparable(rows: DataFrame, name: str) -> Column:
    # Spark compares no maps, so their entries are compared in order.
    if isinstance(rows.schema[name].dataType, MapType):
        return F.array_sort(F.map_entries(column(name))).alias(name)
    return column(name)
