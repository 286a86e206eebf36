"""Which columns of the upstream each column of a view comes from, as far as the query's text tells."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from sqlglot import exp

from airflow_backfill_provider.shapes.base import ColumnOrigin, QueryLineage
from airflow_backfill_provider.shapes.row.query import RowQuery


def query_lineage(
    query: RowQuery, available: Sequence[str], key: Sequence[str], upstream_names: Collection[str] = ()
) -> QueryLineage:
    """
    Read the lineage off a view's query.

    :param query: the query.
    :param available: the upstream's columns.
    :param key: its key columns; the view keeps the ones that the query drops, in hidden columns.
    :param upstream_names: names that a star may stand for, as of the job's creation.
    """
    known = {column: ColumnOrigin((column,), unchanged=True) for column in available}
    filtered_by: set[str] = set()
    for level in query.levels:
        sources = _Sources(available, known, level.alias)
        if (where := level.select.args.get("where")) is not None:
            filtered_by.update(sources.of(where))
        known = {}
        for projection in level.select.selects:
            known.update(_origins(projection, sources))
    for column, hidden in query.hidden_keys(key, upstream_names).items():
        known[hidden] = ColumnOrigin((column,), unchanged=True)
    return QueryLineage(known, tuple(column for column in available if column in filtered_by))


class _Sources:
    """Finds the upstream's columns in expressions; Spark doesn't distinguish their case."""

    def __init__(self, available: Sequence[str], known: Mapping[str, ColumnOrigin], alias: str) -> None:
        """:param known: the columns that the expressions may use, in order, and where those come from."""
        self.available = available
        self.known = known
        self.alias = alias.lower()
        self._by_name = {column.lower(): origin for column, origin in known.items()}

    def of(self, expression: exp.Expr) -> tuple[str, ...]:
        """Return the columns that an expression uses, in the upstream's order."""
        paths = [self._path(column) for column in expression.find_all(exp.Column)]
        named = [self._by_name.get(path[0]) for path in (*paths, *self._named_by_text(expression))]
        used = {column for origin in named if origin is not None for column in origin.inputs}
        return tuple(column for column in self.available if column in used)

    def is_plain(self, expression: exp.Expr) -> bool:
        """Tell whether an expression is one column as it is."""
        if not isinstance(expression, exp.Column):
            return False
        path = self._path(expression)
        return len(path) == 1 and path[0] in self._by_name and self._by_name[path[0]].unchanged

    def _named_by_text(self, expression: exp.Expr) -> Iterator[list[str]]:
        """Yield the names in ``IDENTIFIER('…')``."""
        for function in expression.find_all(exp.Anonymous):
            if function.name.lower() == "identifier" and function.expressions:
                yield self._path(exp.to_column(function.expressions[0].name, dialect="spark"))

    def _path(self, column: exp.Column | exp.Dot) -> list[str]:
        """Return a name as a column and the fields inside of it, without the relation before it."""
        parts = [part.name.lower() for part in column.parts]
        return parts[1:] if len(parts) > 1 and parts[0] == self.alias else parts


def _origins(projection: exp.Expr, sources: _Sources) -> Iterator[tuple[str, ColumnOrigin]]:
    source = projection.unalias()
    star = source if isinstance(source, exp.Star) else source.this if isinstance(source, exp.Column) else None
    if isinstance(star, exp.Star):
        if not isinstance(source, exp.Column) or source.table.lower() == sources.alias:
            yield from _star(star, sources)
    elif name := projection.alias_or_name:
        yield name, ColumnOrigin(sources.of(source), unchanged=sources.is_plain(source))


def _star(star: exp.Star, sources: _Sources) -> Iterator[tuple[str, ColumnOrigin]]:
    without = {column.name.lower() for column in _arguments(star, "except_", "except")}
    replaced = {column.alias.lower(): column.unalias() for column in _arguments(star, "replace")}
    for column, origin in sources.known.items():
        expression = replaced.get(column.lower())
        if expression is not None:
            yield column, ColumnOrigin(sources.of(expression), unchanged=sources.is_plain(expression))
        elif column.lower() not in without:
            yield column, origin


def _arguments(star: exp.Star, *names: str) -> Iterable[exp.Expr]:
    return next((found for name in names if (found := star.args.get(name))), ())
