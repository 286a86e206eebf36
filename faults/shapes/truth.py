"""The expected view: the verbatim query, computed by Spark over rows that the case keeps separately."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import StructType

from airflow_backfill_provider.core.job.sql import quote
from faults.campaign import WrongError
from faults.shapes.case import Case
from faults.shapes.rows import Row
from faults.shapes.writers import frame

PINNED = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.variable.substitute": "false",
}
_EXAMPLES = 2
_WIDTH = re.compile(r"\b(?:var)?char\(\d+\)")


class Truth:
    """
    The upstream's rows, version by version, and the query's result over them.

    :param case: the case with columns and query.
    :param spark: a separate session with the settings that a job promises.
    """

    def __init__(self, case: Case, spark: SparkSession) -> None:
        self._case = case
        self._spark = spark
        for name, value in PINNED.items():
            spark.conf.set(name, value)
        self._versions: dict[int, tuple[Row, ...]] = {}

    def record(self, version: int, rows: tuple[Row, ...]) -> None:
        """Remember the rows as of a version."""
        self._versions[version] = rows

    @property
    def key(self) -> tuple[tuple[str, bool], ...]:
        """The upstream's key columns, each with its direction."""
        return self._case.key

    @property
    def newest(self) -> int:
        """The newest version of the upstream."""
        return max(self._versions)

    def rows(self, version: int) -> tuple[Row, ...]:
        """Return the rows as of a version."""
        return self._versions[max(known for known in self._versions if known <= version)]

    def all_rows(self) -> list[tuple[Row, ...]]:
        """Return the rows as of each version, the newest first."""
        return [rows for _, rows in sorted(self._versions.items(), reverse=True)]

    def vnodes(self, rows: Sequence[Row], columns: Sequence[str], count: int) -> list[int]:
        """Return each row's vnode, as Spark hashes it."""
        if not rows or count == 1:
            return [0] * len(rows)
        made = self._frame(rows)
        hashed = F.pmod(F.hash(*(made[quote(name)] for name in columns)), F.lit(count))
        return [vnode for (vnode,) in made.select(hashed).collect()]

    def result(self, rows: Sequence[Row]) -> DataFrame:
        """Return the query's result over some rows."""
        self._frame(rows).createOrReplaceTempView("upstream")
        return self._spark.sql(self._case.job["query"])

    def require(self, view: DataFrame, rows: Sequence[Row], when: str) -> None:
        """
        Compare a view with the query over some rows.

        :raises WrongError: if they differ; the error names the differences.
        """
        wanted = self.result(rows)
        if missing := [name for name in wanted.columns if name not in view.columns]:
            raise WrongError(f"{when}: the view has no column {missing!a}; it has {view.columns!a}")
        found = view.select(*(view[quote(name)] for name in wanted.columns))
        if types_of(wanted.schema) != types_of(found.schema):
            raise WrongError(
                f"{when}: the query gives {types_of(wanted.schema)!a}, the view has {types_of(found.schema)!a}"
            )
        expected, there = plain(wanted), plain(found)
        if expected != there:
            missing_rows, more = expected - there, there - expected
            raise WrongError(
                f"{when}: {missing_rows.total()} rows missing, {more.total()} unexpected, of {expected.total()}: "
                f"missing {list(missing_rows)[:_EXAMPLES]!a}, unexpected {list(more)[:_EXAMPLES]!a}"
            )

    def _frame(self, rows: Sequence[Row]) -> DataFrame:
        columns = self._case.columns
        made = frame(self._spark, self._case.written, rows)
        if len(columns) == len(self._case.written):
            return made
        values = [F.expr(one.computed) if one.computed else made[quote(one.name)] for one in columns]
        return made.select(*(value.alias(one.name) for value, one in zip(values, columns, strict=True)))


def plain(rows: DataFrame) -> Counter[str]:
    """Return rows as texts that distinguish all values: NaN, -0.0, bytes, the order of arrays."""
    return Counter(map(repr, values_of(rows)))


def values_of(rows: DataFrame) -> list[tuple[Any, ...]]:
    """Return rows as plain values."""
    numbered = rows.toDF(*(f"c{i}" for i in range(len(rows.columns))))
    variants = [f"to_json({f.name})" if f.dataType.typeName() == "variant" else f.name for f in numbered.schema]
    return values_of_arrow(numbered.selectExpr(*variants).toArrow())


def values_of_arrow(table: pa.Table) -> list[tuple[Any, ...]]:
    """Return rows of Arrow as plain values."""
    columns = [_column(column).to_pylist() for column in table.columns]
    return [tuple(map(_plain, values)) for values in zip(*columns, strict=True)]


def _column(column: pa.ChunkedArray) -> pa.ChunkedArray:
    # Python has no years before 1 or after 9999.
    return column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column


def _plain(value: Any) -> Any:
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return value


def types_of(schema: StructType) -> list[str]:
    """Return the types of columns."""
    # Delta may record the width of a text column.
    return [_WIDTH.sub("string", field.dataType.simpleString()) for field in schema]
