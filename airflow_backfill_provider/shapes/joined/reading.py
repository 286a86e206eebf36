"""
Reads a query over several relations from its tokens.

Subqueries are cut out at their parentheses. Each SELECT is then parsed by itself as one over plain relations, and the
rules for its expressions are those of all shapes. The text stays as it is: what runs is cut from it at positions of
tokens (:mod:`~airflow_backfill_provider.shapes.joined.texts`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.shapes.group.steps import aggregate_operator
from airflow_backfill_provider.shapes.joined.clauses import (
    Subquery,
    branches,
    end_of_from,
    marker,
    relation_starts,
    subqueries,
    with_markers,
)
from airflow_backfill_provider.shapes.joined.conditions import conjuncts, unwrapped
from airflow_backfill_provider.shapes.joined.parts import Existence, Join, Joining, Rows, Source, Union
from airflow_backfill_provider.shapes.joined.refusals import refused, unsupported
from airflow_backfill_provider.shapes.levels import (
    Chain,
    CommonTable,
    Level,
    LevelRules,
    RelationPlace,
    from_index,
    one_statement,
    require_plain_table,
    syntax_errors,
)
from airflow_backfill_provider.shapes.query_text import QueryText
from airflow_backfill_provider.shapes.token_lists import added, split, type_at, without_parentheses

_RULES = LevelRules(unsupported, {"aggregate": aggregate_operator}, relation="")
_ONE_QUERY = "the query must be one SELECT … FROM … JOIN … [WHERE …], or several with UNION ALL between them"
_Tables = Mapping[str, CommonTable]


def read_rows(query: QueryText) -> Rows:
    """
    Read a query.

    :raises InvalidJobError: with a construct that no query over several relations may have, or with the position of a
        syntax error.
    """
    with syntax_errors():
        reader = _Reader(query.text)
        rows = reader.rows_of(one_statement(query.tokens), {})
        reader.chain.require_all_read()
        return rows


def as_join(rows: Rows) -> Rows:
    """Return rows of one upstream as those of a join that has no further relation; others stay as they are."""
    if rows.base is not None:
        return rows
    level = rows.levels[0]
    if level.reads is None:
        raise TypeError("the first step reads an upstream")
    start, end, is_named = level.reads
    source = Source(
        name=level.alias,
        relation=level.select.args["from_"].this.name,
        steps=(),
        how=Joining.FIRST,
        on=None,
        using=(),
        place=(start, end),
        is_named=is_named,
        is_common=False,
        read=level.reads,
    )
    return Rows(Join(level, (source,), ()), rows.levels[1:])


@dataclass(frozen=True, slots=True)
class _Select:
    """
    A SELECT with a name in place of each query in it.

    :param tree: its tree.
    :param tokens: the tree's tokens.
    :param places: where its relations stand among the tokens of the text.
    :param subqueries: the subqueries of its WHERE.
    :param plain: its tokens with these subqueries.
    """

    tree: exp.Select
    tokens: list[Token]
    places: list[RelationPlace]
    subqueries: list[Subquery]
    plain: list[Token]

    @property
    def joins(self) -> list[exp.Join]:
        """The relations after the first one."""
        return self.tree.args.get("joins") or []

    @property
    def relations(self) -> list[exp.Expr]:
        """All relations, in order."""
        first = self.tree.args.get("from_")
        return [] if first is None else [first.this, *(join.this for join in self.joins)]


class _Reader:
    def __init__(self, text: str) -> None:
        self.chain = Chain(text, _RULES)

    def rows_of(self, tokens: list[Token], tables: _Tables) -> Rows:
        """Return what a query or a subquery gives."""
        tokens = without_parentheses(tokens)
        if type_at(tokens, 0) == TokenType.WITH:
            tables, tokens = self.chain.with_tables(tokens, tables)
        head, *operators = split(tokens, TokenType.PIPE_GT)
        head = without_parentheses(head)
        parts = branches(head)
        if len(parts) > 1:
            if operators:
                raise unsupported("pipe operators after a union")
            return self._union([part.tokens for part in parts], tables, is_distinct=parts[-1].is_distinct)
        if type_at(head, 0) == TokenType.FROM and operators:
            star = added(head[0], (TokenType.SELECT, "SELECT"), (TokenType.STAR, "*"))
            rows = self._select([*star, *head], tables, is_piped=True)
        elif type_at(head, 0) == TokenType.SELECT:
            rows = self._select(head, tables, is_piped=False)
        elif type_at(head, 0) in {TokenType.WITH, TokenType.L_PAREN} and len(head) < len(tokens):
            rows = self.rows_of(head, tables)
        else:
            raise InvalidJobError(_ONE_QUERY)
        return replace(rows, levels=(*rows.levels, *self.chain.operators(operators)))

    def _union(self, parts: Sequence[list[Token]], tables: _Tables, *, is_distinct: bool) -> Rows:
        found: list[Rows] = []
        for part in parts:
            rows = self.rows_of(part, tables)
            if isinstance(rows.base, Union) and not rows.levels:
                if rows.base.is_distinct and not is_distinct:
                    raise unsupported("UNION before UNION ALL")
                found += rows.base.branches
            elif isinstance(rows.base, Union):
                raise unsupported("a join or a union inside FROM")
            else:
                found.append(as_join(rows))
        span = (parts[0][0].start, parts[-1][-1].end + 1)
        return Rows(Union(tuple(found), is_distinct, span), ())

    def _select(self, tokens: list[Token], tables: _Tables, *, is_piped: bool) -> Rows:
        at = from_index(tokens, _RULES)
        found = self._read(tokens, at, tables)
        if len(found.places) == 1 and not found.subqueries:
            place = found.places[0]
            inner = Rows(None, ()) if place.inner is None else self.rows_of(place.inner.tokens, place.inner.tables)
            if isinstance(inner.base, Union) and inner.base.is_distinct:
                raise unsupported("UNION without ALL inside FROM")
            level = self.chain.level(tokens, place, at=at, is_piped=is_piped)
            return Rows(inner.base, (*inner.levels, level))
        level = Level(
            select=found.tree,
            tokens=tuple(found.tokens),
            alias="",
            end_of_list=tokens[-1].end + 1 if is_piped else tokens[at].start,
            is_piped=is_piped,
            span=(tokens[0].start, tokens[-1].end + 1),
            relation=(tokens[at + 1].start, tokens[end_of_from(tokens, at) - 1].end + 1),
        )
        return Rows(Join(level, self._sources(found), tuple(self._existences(found, tables))), ())

    def _read(self, tokens: list[Token], at: int, tables: _Tables) -> _Select:
        """Return a SELECT, with a name in place of each subquery."""
        places = [self.chain.place_of(tokens, start, tables) for start in relation_starts(tokens, at)]
        plain = list(tokens)
        for number, place in reversed(list(enumerate(places))):
            if place.is_nested:
                plain[place.first : place.last + 1] = added(tokens[place.first], (TokenType.VAR, _nameless(number)))
        cut = list(subqueries(plain))
        marked = with_markers(plain, cut)
        found = _Select(self.chain.parse(marked), marked, places, cut, plain)
        tables_in_tree = [table for table in found.tree.find_all(exp.Table) if table.find_ancestor(exp.Hint) is None]
        if not len(found.relations) == len(places) == len(tables_in_tree):
            raise unsupported("parentheses around joins")
        return found

    def _sources(self, found: _Select) -> tuple[Source, ...]:
        sources = [self._source(*relation) for relation in zip(found.relations, found.places, strict=True)]
        return _joined(sources, found.joins)

    def _source(self, table: exp.Expr, place: RelationPlace) -> Source:
        if not isinstance(table, exp.Table):
            raise unsupported("a table function")
        require_plain_table(table, place.name, _RULES)
        inner = Rows(None, ()) if place.inner is None else self.rows_of(place.inner.tokens, place.inner.tables)
        if inner.base is not None:
            raise unsupported("a join or a union inside FROM")
        is_named, steps = bool(table.alias), inner.levels
        read = steps[0].reads if steps else (*place.span, is_named)
        if read is None:
            raise TypeError("the first step reads an upstream")
        return Source(
            name=table.alias_or_name,
            relation=steps[0].select.args["from_"].this.name if steps else table.name,
            steps=steps,
            how=Joining.FIRST,
            on=None,
            using=(),
            place=place.span,
            is_named=is_named,
            is_common=place.inner is not None and not place.is_nested,
            read=read,
        )

    def _existences(self, found: _Select, tables: _Tables) -> Iterator[Existence]:
        """Yield the conditions of WHERE that are EXISTS or IN."""
        where = found.tree.args.get("where")
        conditions = [] if where is None else conjuncts(where.this)
        for number, subquery in enumerate(found.subqueries):
            tokens = without_parentheses(found.plain[subquery.opening + 1 : subquery.closing])
            condition = next((one for one in conditions if _marked(one, number)), None)
            if condition is None:
                raise unsupported("EXISTS or IN that is not a condition of its own")
            if type_at(tokens, 0) != TokenType.SELECT or len(branches(tokens)) > 1:
                raise unsupported("groups, windows or another clause in EXISTS or IN")
            inner = self._block(tokens, tables)
            values = _values(condition) if subquery.is_in else ()
            how = Joining.ANTI if isinstance(condition, exp.Not) else Joining.SEMI
            yield Existence(how, self._sources(inner), inner.tree, tuple(inner.tokens), values)

    def _block(self, tokens: list[Token], tables: _Tables) -> _Select:
        found = self._read(tokens, from_index(tokens, _RULES), tables)
        if found.subqueries:
            raise unsupported("EXISTS or IN inside EXISTS or IN")
        return found


def _nameless(number: int) -> str:
    """Return the name of a subquery in FROM."""
    return f"__relation_{number}"


def _joined(sources: Sequence[Source], joins: Sequence[exp.Join]) -> tuple[Source, ...]:
    """Return the relations of a FROM with how each is joined."""
    found = [sources[0]]
    for source, join in zip(sources[1:], joins, strict=True):
        using = tuple(name.name.lower() for name in join.args.get("using") or ())
        condition = join.args.get("on")
        is_trivial = isinstance(condition, exp.Boolean)
        written = replace(source, how=_how(join), on=None if is_trivial else condition, using=using)
        if join.side == "RIGHT":
            if len(found) > 1:
                raise unsupported("RIGHT JOIN")
            found = [replace(found[0], how=Joining.LEFT, on=written.on, using=using)]
            written = replace(source, how=Joining.FIRST)
        found.append(written)
    names = [source.name.lower() for source in found]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise refused(f"the name {twice[0]} for two relations", f"give each an alias: FROM {twice[0]} AS a … AS b")
    return tuple(found)


def _how(join: exp.Join) -> Joining:
    if join.method in {"NATURAL", "ASOF"}:
        raise unsupported(f"{join.method} JOIN")
    if join.side == "FULL":
        raise unsupported("FULL JOIN")
    match join.kind:
        case "SEMI":
            return Joining.SEMI
        case "ANTI":
            return Joining.ANTI
        case _:
            return Joining.LEFT if join.side == "LEFT" else Joining.INNER


def _marked(condition: exp.Expr, number: int) -> bool:
    """Return whether a condition is a subquery, IN a subquery, or the negation of one of them."""
    if isinstance(condition, exp.Not):
        condition = unwrapped(condition.this)
    if isinstance(condition, exp.In):
        listed = condition.expressions
        return len(listed) == 1 and _is_marker(listed[0], number)
    return _is_marker(condition, number)


def _is_marker(node: exp.Expr, number: int) -> bool:
    return isinstance(node, exp.Column) and node.name == marker(number) and not node.table


def _values(condition: exp.Expr) -> tuple[exp.Expr, ...]:
    """Return the values before IN."""
    found = unwrapped(condition.this) if isinstance(condition, exp.Not) else condition
    value = unwrapped(found.this)
    return tuple(map(unwrapped, value.expressions)) if isinstance(value, exp.Tuple) else (value,)
