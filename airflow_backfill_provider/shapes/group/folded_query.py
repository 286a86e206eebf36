"""A job's query as a fold, on Spark: whether it is one, and its parts over rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame
from pyspark.sql.types import BooleanType, StructField, StructType

from airflow_backfill_provider.core.job.sql import quote
from airflow_backfill_provider.core.scan.columns import own_columns
from airflow_backfill_provider.shapes.group.fold.arguments import NamedArguments, named_arguments
from airflow_backfill_provider.shapes.group.fold.folding import Fold, fold_of
from airflow_backfill_provider.shapes.group.fold.items import KEYWORDS, Items, WrittenCall, items_of
from airflow_backfill_provider.shapes.group.fold.reasons import NotFolded, Reason
from airflow_backfill_provider.shapes.group.fold.statements import shown
from airflow_backfill_provider.shapes.group.fold.step import EVERYTHING, Aggregate, GroupingStep
from airflow_backfill_provider.shapes.group.grouped_rows import GroupedRows, GroupInput, run

_ROWS = "backfill_rows__"


@dataclass(frozen=True, slots=True)
class FoldedQuery:
    """
    A query that is folded.

    :param rows: gives the rows that it groups.
    :param fold: its fold, over the columns that hold the arguments of its aggregates.
    :param arguments: these columns.
    :param names: the names of the columns of units beside them.
    :param items: its list of columns.
    :param state: the hidden columns that keep the state of a group: name → SQL over its rows.
    """

    rows: GroupInput
    fold: Fold
    arguments: NamedArguments
    names: tuple[str, ...]
    items: Items
    state: Mapping[str, str]

    @classmethod
    def of(cls, rows: GroupInput) -> FoldedQuery | NotFolded:
        """Return a query as a fold, or why it cannot be one."""
        query, units = rows.query, rows.units
        columns = frozenset(name.lower() for name in rows.context.query.upstream_names)
        if words := sorted(KEYWORDS & columns & query.words):
            return NotFolded(Reason.EXPRESSION, f"a query with the word {words[0]}", "the upstream has such a column")
        names = query.words | columns | {name.lower() for name in units.outputs}
        items = items_of(query.steps, units, query.text, names)
        if isinstance(items, NotFolded):
            return items
        plain = rows.with_state({})
        aggregates = _typed(plain.empty(), items.calls)
        has_having = bool(query.steps[-1].level.select.args.get("having"))
        step = GroupingStep(aggregates=aggregates, units=units.outputs, has_having=has_having)
        written = fold_of(step, names)
        if isinstance(written, NotFolded):
            return written
        own = own_columns([*names, *rows.context.query.upstream_names, written.sign])
        arguments = named_arguments(aggregates, own)
        fold = fold_of(replace(step, aggregates=arguments.aggregates), names)
        if isinstance(fold, NotFolded):
            raise TypeError(f"a fold does not depend on the names of columns: {fold}")
        state = {column.name: column.of_rows for column in written.columns}
        return cls(plain, fold, arguments, tuple(own.numbered("unit", len(units.terms))), items, state)

    def rows_of(self, rows: GroupedRows) -> DataFrame:
        """Return the units of the rows that are grouped, and the arguments of the aggregates."""
        text = self.rows.query.text
        terms = (f"({term.text(text)})" for term in self.rows.units.terms)
        columns = [*zip(terms, self.names, strict=True), *self.arguments.columns]
        # A list of columns is never empty.
        return rows.before_grouping(", ".join(f"{sql} AS {quote(name)}" for sql, name in columns) or "1")

    def grouped(self, images: DataFrame, columns: Sequence[str]) -> DataFrame:
        """Return the groups of signed rows of :meth:`rows_of`, with some items."""
        outputs = zip(self.names, self.rows.units.outputs, strict=True)
        listed = [*(f"{quote(name)} AS {quote(output)}" for name, output in outputs), *columns]
        group_by = f" GROUP BY {', '.join(map(quote, self.names))}" if self.names else ""
        return self._run(f"SELECT {', '.join(listed)} FROM `{_ROWS}`{group_by}", images)

    def finished(self, results: DataFrame) -> DataFrame:
        """Return the view's rows of units, results and hidden columns, under any names."""
        columns = [*self.items.columns, *(state.sql for state in self.fold.columns)]
        names = [f"c{number}" for number in range(len(columns))]
        listed = ", ".join(f"{sql} AS {name}" for sql, name in zip(columns, names, strict=True))
        return self._run(f"SELECT {listed} FROM `{_ROWS}`", results)

    def other_columns(self) -> NotFolded | None:
        """Return that the fold gives other types of columns than the query; ``None`` if it gives the same."""
        whole = self.rows.with_state(self.state).empty().groups()
        results = self.rows.context.spark.createDataFrame([], self._states(whole.schema))
        folded = self.finished(self._run(shown(self.fold, f"`{_ROWS}`"), results))
        wanted, given = ([kind for _, kind in found.dtypes] for found in (whole, folded))
        if wanted == given and all(dict(whole.dtypes)[state.name] == state.type for state in self.fold.columns):
            return None
        return NotFolded(Reason.TYPE, "its list of columns", "the fold gives other types than Spark")

    def _states(self, view: StructType) -> StructType:
        """Return the columns of a group's state before it is shown, with the types that they have in the view."""
        types = {field.name.lower(): field.dataType for field in view.fields}
        names = [*self.rows.units.outputs, *(state.name for state in self.fold.columns)]
        held = [StructField(name, types[name.lower()]) for name in names]
        return StructType([*held, StructField(self.fold.is_lost, BooleanType())])

    def _run(self, text: str, rows: DataFrame) -> DataFrame:
        return run(self.rows.context, text, {_ROWS: rows})


def _typed(rows: GroupedRows, calls: Sequence[WrittenCall]) -> tuple[Aggregate, ...]:
    """Return calls with the types that Spark gives them; each query costs time, so two tell all of them."""
    arguments = [[] if call.arguments == (EVERYTHING,) else list(call.arguments) for call in calls]
    types = iter(_types(rows, [f"({text})" for texts in arguments for text in texts]))
    results = _types(rows, [call.text for call in calls])
    return tuple(
        Aggregate(
            function=call.function,
            arguments=call.arguments,
            argument_types=tuple(next(types) for _ in texts),
            result_type=result,
            output=call.output,
            is_distinct=call.is_distinct,
            condition=call.condition,
        )
        for call, texts, result in zip(calls, arguments, results, strict=True)
    )


def _types(rows: GroupedRows, expressions: Sequence[str]) -> list[str]:
    """Return the types of expressions over the rows that the query groups."""
    if not expressions:
        return []
    listed = ", ".join(f"{expression} AS x{number}" for number, expression in enumerate(expressions))
    return [kind for _, kind in rows.before_grouping(listed).dtypes]
