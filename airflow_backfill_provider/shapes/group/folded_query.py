"""A job's query as a fold, on Spark: whether it is one, and its parts over rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import BooleanType, StructField, StructType

from airflow_backfill_provider.core.job.sql import quote
from airflow_backfill_provider.core.scan.columns import own_columns
from airflow_backfill_provider.shapes.base import WriterContext
from airflow_backfill_provider.shapes.group.fold.folding import Fold, fold_of
from airflow_backfill_provider.shapes.group.fold.items import KEYWORDS, Items, WrittenCall, items_of
from airflow_backfill_provider.shapes.group.fold.reasons import NotFolded, Reason
from airflow_backfill_provider.shapes.group.fold.statements import shown
from airflow_backfill_provider.shapes.group.fold.step import EVERYTHING, Aggregate, GroupingStep
from airflow_backfill_provider.shapes.group.query import GroupQuery
from airflow_backfill_provider.shapes.group.units import Units
from airflow_backfill_provider.sources.shared.by_key import column
from airflow_backfill_provider.spark.named_relations import sql_over
from airflow_backfill_provider.spark.spark_errors import query_errors

_ROWS = "backfill_rows__"


@dataclass(frozen=True, slots=True)
class FoldedQuery:
    """
    A query that is folded.

    :param fold: its fold.
    :param items: its list of columns.
    :param units: its units.
    """

    context: WriterContext
    query: GroupQuery
    fold: Fold
    items: Items
    units: Units

    @classmethod
    def of(cls, context: WriterContext, query: GroupQuery) -> FoldedQuery | NotFolded:
        """Return a query as a fold, or why it cannot be one."""
        upstream = context.job_rows.names
        units = query.units_with(upstream)
        columns = frozenset(name.lower() for name in upstream)
        if words := sorted(KEYWORDS & columns & query.words):
            return NotFolded(Reason.EXPRESSION, f"a query with the word {words[0]}", "the upstream has such a column")
        names = query.words | columns | {name.lower() for name in units.outputs}
        items = items_of(query.steps, units, query.text, names)
        if isinstance(items, NotFolded):
            return items
        plain = query.with_state({})
        aggregates = _typed(context, plain, items.calls)
        has_having = bool(query.steps[-1].level.select.args.get("having"))
        fold = fold_of(GroupingStep(aggregates=aggregates, units=units.outputs, has_having=has_having), names)
        if isinstance(fold, NotFolded):
            return fold
        return cls(context, plain, fold, items, units)

    @property
    def state(self) -> Mapping[str, str]:
        """The hidden columns that keep the state of a group: name → SQL over its rows."""
        return {state.name: state.of_rows for state in self.fold.columns}

    def grouped(self, images: DataFrame, columns: Sequence[str]) -> DataFrame:
        """
        Return the groups of signed images, with some items.

        The images go through the query's earlier steps by their sign, because these steps drop other columns.
        """
        own = own_columns([*self.query.words, *self.context.job_rows.names, self.fold.sign])
        names = own.numbered("unit", len(self.units.terms))
        terms = (f"({term.text(self.query.text)})" for term in self.units.terms)
        selected = ", ".join(["*", *(f"{term} AS {quote(name)}" for term, name in zip(terms, names, strict=True))])
        sign = column(self.fold.sign)
        going, coming = (
            _over(self.context, self.query, selected, images.filter(sign == value)).withColumn(
                self.fold.sign, F.lit(value)
            )
            for value in (-1, 1)
        )
        outputs = [f"{quote(name)} AS {quote(output)}" for name, output in zip(names, self.units.outputs, strict=True)]
        alias = self.query.steps[-1].level.alias
        group_by = f" GROUP BY {', '.join(map(quote, names))}" if names else ""
        text = f"SELECT {', '.join([*outputs, *columns])} FROM `{_ROWS}` AS {quote(alias or _ROWS)}{group_by}"
        return _run(self.context, text, going.unionAll(coming))

    def finished(self, results: DataFrame) -> DataFrame:
        """Return the view's rows of units, results and hidden columns, under any names."""
        columns = [*self.items.columns, *(state.sql for state in self.fold.columns)]
        names = [f"c{number}" for number in range(len(columns))]
        listed = ", ".join(f"{sql} AS {name}" for sql, name in zip(columns, names, strict=True))
        return _run(self.context, f"SELECT {listed} FROM `{_ROWS}`", results)

    def other_columns(self) -> NotFolded | None:
        """Return that the fold gives other types of columns than the query; ``None`` if it gives the same."""
        rows = self.context.job_rows.empty()
        whole = _run(
            self.context,
            self.query.with_state(self.state).render(_ROWS, (), self.context.job_rows.names),
            rows.select(*map(column, self.context.job_rows.columns)),
        )
        results = self.context.spark.createDataFrame([], self._states(whole.schema))
        folded = self.finished(_run(self.context, shown(self.fold, f"`{_ROWS}`"), results))
        wanted, given = ([kind for _, kind in found.dtypes] for found in (whole, folded))
        if wanted == given and all(dict(whole.dtypes)[state.name] == state.type for state in self.fold.columns):
            return None
        return NotFolded(Reason.TYPE, "its list of columns", "the fold gives other types than Spark")

    def _states(self, view: StructType) -> StructType:
        """Return the columns of a group's state before it is shown, with the types that they have in the view."""
        types = {field.name.lower(): field.dataType for field in view.fields}
        names = [*self.units.outputs, *(state.name for state in self.fold.columns)]
        held = [StructField(name, types[name.lower()]) for name in names]
        return StructType([*held, StructField(self.fold.is_lost, BooleanType())])


def _typed(context: WriterContext, query: GroupQuery, calls: Sequence[WrittenCall]) -> tuple[Aggregate, ...]:
    """Return calls with the types that Spark gives them; each query costs time, so two tell all of them."""
    rows = context.job_rows.empty()
    arguments = [[] if call.arguments == (EVERYTHING,) else list(call.arguments) for call in calls]
    types = iter(_types(context, query, [f"({text})" for texts in arguments for text in texts], rows))
    results = _types(context, query, [call.text for call in calls], rows)
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


def _types(context: WriterContext, query: GroupQuery, expressions: Sequence[str], rows: DataFrame) -> list[str]:
    """Return the types of expressions over the rows that the query groups."""
    if not expressions:
        return []
    listed = ", ".join(f"{expression} AS x{number}" for number, expression in enumerate(expressions))
    return [kind for _, kind in _over(context, query, listed, rows).dtypes]


def _over(context: WriterContext, query: GroupQuery, selected: str, rows: DataFrame) -> DataFrame:
    """Return a list of columns over the rows that the query groups."""
    # An old image has the columns of the query, and not the key.
    used = rows.select(*map(column, query.columns_of(context.job_rows.columns)))
    return _run(context, query.render_rows(_ROWS, selected), used)


def _run(context: WriterContext, text: str, rows: DataFrame) -> DataFrame:
    with query_errors():
        return sql_over(context.spark, text, {f"`{_ROWS}`": rows})
