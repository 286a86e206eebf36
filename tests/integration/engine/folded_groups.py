"""A view of groups that is maintained by a fold, over rows that a test changes as it likes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import StructType

from airflow_backfill_provider.shapes.group.fold.folding import Fold, fold_of
from airflow_backfill_provider.shapes.group.fold.statements import changes, moved, of_rows, shown
from airflow_backfill_provider.shapes.group.fold.step import Aggregate, GroupingStep

Values = tuple[object, ...]


def aggregates(rows: DataFrame, calls: Sequence[str]) -> tuple[Aggregate, ...]:
    """
    Return aggregates with the types that Spark gives them. Their results are ``r0``, ``r1`` and so on.

    :param calls: calls, perhaps with ``DISTINCT`` and ``FILTER (WHERE …)``. Of several arguments, each is a column.
    """
    results = [kind for _, kind in rows.selectExpr(*calls).dtypes]
    return tuple(_aggregate(rows, call, kind, f"r{number}") for number, (call, kind) in enumerate(zip(calls, results)))


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
        self._keep(self._query(self._relation(), of_rows(self.fold)))

    def epoch(self, changed: Mapping[object, Values | None]) -> None:
        """
        Change rows, and fold the changes.

        :param changed: key → its new row; ``None`` if it goes.
        """
        images = [(*self.rows[key], -1) for key in changed if key in self.rows]
        images += [(*row, 1) for row in changed.values() if row is not None]
        self.rows = {key: row for key, row in {**self.rows, **changed}.items() if row is not None}
        signed = self.spark.createDataFrame(images, f"{self.schema}, {self.fold.sign} INT")
        held = [(*unit, *state) for unit, state in self.states.items()]
        base = self.spark.createDataFrame(held, StructType([self._schema[n] for n in (*self.units, *self._hidden)]))
        delta = self._grouped(signed, [*self.units, *changes(self.fold)])
        state = self.spark.sql(moved(self.fold, "{delta}", "{base}"), delta=delta, base=base).persist()
        try:
            self._replace(state)
        finally:
            state.unpersist()

    def assert_truth(self) -> None:
        """The view has the results of Spark's own aggregates over the present rows (I1)."""
        groups = self._collected(self._query(self._relation(), of_rows(self.fold)))
        expected = {unit: results for unit, results, _ in groups}
        for unit in {*expected, *self.results}:
            found = self.results.get(unit, ()), expected.get(unit, ())
            wrong = [(self.calls[n], *pair) for n, pair in enumerate(zip(*found, strict=False)) if pair[0] != pair[1]]
            assert (unit in self.results, wrong) == (unit in expected, []), unit

    def _replace(self, state: DataFrame) -> None:
        kept = self.spark.sql(shown(self.fold, "{state}"), state=state)
        assert kept.dtypes == [(column.name, column.dataType.simpleString()) for column in self._schema.fields]
        touched = state.select(*self.units, self.fold.is_lost).collect()
        self.read_again = [tuple(row[:-1]) for row in touched if row[-1]]
        for row in touched:
            self.results.pop(tuple(row[:-1]), None)
            self.states.pop(tuple(row[:-1]), None)
        self._keep(kept)
        if self.read_again:
            self._keep(self._query(self._relation(), of_rows(self.fold)), self.read_again)

    def _keep(self, groups: DataFrame, units: Sequence[Values] | None = None) -> None:
        for unit, results, state in self._collected(groups):
            if units is None or unit in units:
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

    def _relation(self) -> DataFrame:
        return self.spark.createDataFrame(list(self.rows.values()), self.schema)

    def _query(self, rows: DataFrame, more: Sequence[str]) -> DataFrame:
        """Return the user's query over rows, with more columns."""
        return self._grouped(rows, [*self.units, *(f"{call} AS r{n}" for n, call in enumerate(self.calls)), *more])

    def _grouped(self, rows: DataFrame, columns: Sequence[str]) -> DataFrame:
        group_by = f" GROUP BY {', '.join(self.units)}" if self.units else ""
        return self.spark.sql(f"SELECT {', '.join(columns)} FROM {{rows}} WHERE {self.where}{group_by}", rows=rows)
