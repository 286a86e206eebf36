"""A view of groups that is maintained by a fold, over rows that a test changes as it likes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import StructType

from airflow_backfill_provider.shapes.group.fold.folding import Fold, fold_of
from airflow_backfill_provider.shapes.group.fold.groups import FoldedStep
from airflow_backfill_provider.shapes.group.fold.statements import of_rows
from airflow_backfill_provider.shapes.group.fold.step import Aggregate, GroupingStep

Values = tuple[object, ...]


def aggregates(rows: DataFrame, calls: Sequence[str]) -> tuple[Aggregate, ...]:
    """
    Return aggregates with the types that Spark gives them. Their results are ``r0``, ``r1`` and so on.

    :param calls: calls, perhaps with ``DISTINCT`` and ``FILTER (WHERE …)``. Of several arguments, each is a column.
    """
    results = [kind for _, kind in rows.selectExpr(*calls).dtypes] if calls else []
    typed = enumerate(zip(calls, results, strict=True))
    return tuple(_aggregate(rows, call, kind, f"r{number}") for number, (call, kind) in typed)


def _aggregate(rows: DataFrame, call: str, result_type: str, output: str) -> Aggregate:
    called, _, condition = call.partition(" FILTER (WHERE ")
    function, arguments = called.removesuffix(")").split("(", 1)
    plain = arguments.removeprefix("DISTINCT ")
    types = [] if plain == "*" else rows.selectExpr(f"struct({plain}) AS x").selectExpr("x.*").dtypes
    return Aggregate(
        function=function,
        arguments=tuple(plain.split(", ")) if len(types) > 1 else (plain,),
        argument_types=tuple(kind for _, kind in types),
        result_type=result_type,
        output=output,
        is_distinct=plain != arguments,
        condition=condition.removesuffix(")") or None,
    )


@dataclass
class FoldedGroups:
    """
    A view of groups as a fold leaves it, epoch by epoch.

    :param schema: the rows' columns. The first is the key.
    :param units: the columns to group by.
    :param calls: the aggregates; see :func:`aggregates`.
    :param where: the condition for a row to be grouped.
    """

    spark: SparkSession
    schema: str
    units: tuple[str, ...]
    calls: Sequence[str]
    where: str = "true"
    rows: dict[object, Values] = field(default_factory=dict)
    results: dict[Values, Values] = field(default_factory=dict)
    """Unit → the results in the view, as texts."""
    states: dict[Values, Values] = field(default_factory=dict)
    """Unit → the hidden columns in the view."""
    read_again: list[Values] = field(default_factory=list)
    """The groups that the newest epoch read again."""

    def __post_init__(self) -> None:
        """Fold the step."""
        none = self.spark.createDataFrame([], self.schema)
        found = fold_of(GroupingStep(aggregates=aggregates(none, self.calls), units=self.units), none.columns)
        assert isinstance(found, Fold), str(found)
        self.fold = found
        self._hidden = [column.name for column in found.columns]
        self._schema = self._query(none, of_rows(found)).schema

    def load(self, rows: Iterable[Values]) -> None:
        """Fill the view from rows, as the first epoch does."""
        self.rows = {row[0]: row for row in rows}
        self._keep(self._collected(self._query(self._relation(self.rows.values()), of_rows(self.fold))))

    def epoch(self, changed: Mapping[object, Values | None]) -> None:
        """
        Change rows, and fold the changes.

        :param changed: key → its new row; ``None`` if it goes.
        """
        old = [self.rows[key] for key in changed if key in self.rows]
        new = [row for row in changed.values() if row is not None]
        rows = {key: row for key, row in {**self.rows, **changed}.items() if row is not None}
        held = [(*unit, *state) for unit, state in self.states.items()]
        base = self.spark.createDataFrame(held, StructType([self._schema[n] for n in (*self.units, *self._hidden)]))
        step = FoldedStep(self.fold, self._query, self._of_units)
        with step.touched(
            self._relation(old),
            self._relation(new),
            lambda units: units.rows_in(base) if units else base,
            lambda units: self._read(rows, units),
        ) as touched:
            assert touched.fresh.dtypes == [(column.name, column.dataType.simpleString()) for column in self._schema]
            self.read_again = [tuple(row) for row in touched.lost.collect()]
            units = [tuple(row) for row in touched.units.rows.collect()] if touched.units else [()]
            assert len(units) == touched.number
            fresh = list(self._collected(touched.fresh))
        self.rows = rows
        for unit in units:
            self.results.pop(unit, None)
            self.states.pop(unit, None)
        self._keep(fresh)

    def assert_truth(self) -> None:
        """The view has the results of Spark's own aggregates over the present rows (I1)."""
        groups = self._collected(self._query(self._relation(self.rows.values()), of_rows(self.fold)))
        expected = {unit: results for unit, results, _ in groups}
        for unit in {*expected, *self.results}:
            found = self.results.get(unit, ()), expected.get(unit, ())
            wrong = [(self.calls[n], *pair) for n, pair in enumerate(zip(*found, strict=False)) if pair[0] != pair[1]]
            assert (unit in self.results, wrong) == (unit in expected, []), unit

    def _read(self, rows: Mapping[object, Values], units: DataFrame) -> DataFrame:
        """Return the rows of some units."""
        present = self._relation(rows.values())
        return (
            present.join(units, [present[n].eqNullSafe(units[n]) for n in self.units], "left_semi")
            if self.units
            else present
        )

    def _keep(self, groups: Iterable[tuple[Values, Values, Values]]) -> None:
        for unit, results, state in groups:
            assert unit not in self.results
            self.results[unit], self.states[unit] = results, state

    def _collected(self, groups: DataFrame) -> Iterable[tuple[Values, Values, Values]]:
        """Yield units, results and hidden columns. PySpark does not take every interval, so they become texts."""
        taken = [
            F.col(n).cast("string").alias(n) if kind.startswith("interval") else F.col(n) for n, kind in groups.dtypes
        ]
        for row in groups.select(*taken).collect():
            results = tuple(repr(row[f"r{number}"]) for number in range(len(self.calls)))
            yield tuple(row[n] for n in self.units), results, tuple(row[n] for n in self._hidden)

    def _relation(self, rows: Iterable[Values]) -> DataFrame:
        return self.spark.createDataFrame(list(rows), self.schema)

    def _query(self, rows: DataFrame, more: Sequence[str]) -> DataFrame:
        """Return the user's query over rows, with more columns."""
        return self._grouped(rows, [*self.units, *(f"{call} AS r{n}" for n, call in enumerate(self.calls)), *more])

    def _of_units(self, rows: DataFrame, columns: Sequence[str]) -> DataFrame:
        return self._grouped(rows, [*self.units, *columns])

    def _grouped(self, rows: DataFrame, columns: Sequence[str]) -> DataFrame:
        group_by = f" GROUP BY {', '.join(self.units)}" if self.units else ""
        return self.spark.sql(f"SELECT {', '.join(columns)} FROM {{rows}} WHERE {self.where}{group_by}", rows=rows)
