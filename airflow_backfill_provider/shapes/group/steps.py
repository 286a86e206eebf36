"""
The steps of a query of groups: which expressions each one selects, groups by, and divides its windows by.

A :class:`~airflow_backfill_provider.shapes.levels.Level` is one step as a tree over a plain relation. The tree says
which clauses there are. The expressions are read from the tokens, because what runs is the user's text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.shapes.functions import AGGREGATES
from airflow_backfill_provider.shapes.group.calls import Call, WindowSpec, calls_of, spec_of
from airflow_backfill_provider.shapes.group.refusals import refused, unsupported
from airflow_backfill_provider.shapes.group.terms import Term, column, named_term, terms
from airflow_backfill_provider.shapes.levels import Level
from airflow_backfill_provider.shapes.token_lists import added, outermost, split, type_at

_BEFORE_LIST = frozenset({TokenType.SELECT, TokenType.HINT, TokenType.DISTINCT, TokenType.ALL})
_CLAUSES = {
    TokenType.FROM: "from_",
    TokenType.WHERE: "where",
    TokenType.GROUP_BY: "group",
    TokenType.HAVING: "having",
    TokenType.QUALIFY: "qualify",
    TokenType.WINDOW: "windows",
}
_GRAINS = {TokenType.ROLLUP: "ROLLUP", TokenType.CUBE: "CUBE", TokenType.GROUPING_SETS: "GROUPING SETS"}


@dataclass(frozen=True, slots=True)
class Step:
    """
    One step of a query.

    :param level: its tree, and its place in the text.
    :param items: the expressions that it selects, without stars.
    :param group: the expressions that it groups by, with those that an alias or a number stands for; none for an
        aggregate over all rows; ``None`` if it does not group.
    :param is_distinct: whether it selects DISTINCT.
    :param calls: its calls of aggregates and window functions.
    :param aliases: the aliases of expressions that it groups by; none of them may also be a column.
    :param input_end: where the clauses end in the text that say which rows it reads.
    """

    level: Level
    items: tuple[Term, ...]
    group: tuple[Term, ...] | None
    is_distinct: bool
    calls: tuple[Call, ...]
    aliases: frozenset[str]
    input_end: int

    @property
    def is_of_rows(self) -> bool:
        """Whether each row of the step depends on one row of its relation."""
        return not self.divisions

    @property
    def divisions(self) -> tuple[tuple[Term, ...], ...]:
        """The lists of expressions that the step divides its rows by, one for each grouping and each window."""
        windows = tuple(call.over.partition for call in self.calls if call.over is not None)
        distinct = (self.items,) if self.is_distinct else ()
        return (*(() if self.group is None else (self.group,)), *distinct, *windows)

    def outputs(self, wanted: Term) -> list[str]:
        """Return the names under which the step passes on one of its expressions."""
        found = [item.name for item in self.items if item.name and item.meaning == wanted.meaning]
        is_column = bool(wanted.name) and wanted.meaning == column(wanted.name)
        without = self.level.star_without
        if is_column and without is not None and wanted.name.lower() not in without:
            found.append(wanted.name)
        return found


def refuse_joins(tokens: Sequence[Token]) -> None:
    """
    Refuse joins.

    :raises InvalidJobError: with the clause.
    """
    for index, token in enumerate(tokens):
        # After a dot, any word is a name.
        if token.token_type == TokenType.JOIN and type_at(tokens, index - 1) != TokenType.DOT:
            raise unsupported("JOIN")


def refuse_grains(tokens: Sequence[Token]) -> None:
    """
    Refuse groups of several grains at once.

    :raises InvalidJobError: with the clause.
    """
    for index, token in enumerate(tokens):
        before, after = type_at(tokens, index - 1), type_at(tokens, index + 1)
        is_list = after == TokenType.L_PAREN or before == TokenType.WITH
        if token.token_type in _GRAINS and is_list and before != TokenType.DOT:
            raise unsupported(_GRAINS[token.token_type])


def require_divided(steps: Sequence[Step]) -> None:
    """
    Refuse windows without PARTITION BY, of which each row changes with every other one.

    :raises InvalidJobError: with the call.
    """
    for call in (call for step in steps for call in step.calls):
        if call.over is not None and not call.over.partition:
            raise refused(
                f"{call.name} OVER a window without PARTITION BY",
                "divide it: OVER (PARTITION BY …); a window over all rows changes with every row",
            )


def step_of(level: Level) -> Step:
    """
    Read a step.

    :raises InvalidJobError: with a construct that no step may have.
    """
    tokens, relation = list(level.tokens), level.alias
    clauses = dict(_clauses(level))
    items = tuple(_items(level, tokens[: clauses[TokenType.FROM][0]]))
    windows = dict(_windows(clauses, tokens, relation))
    calls = tuple(calls_of(tokens, relation, windows))
    _require_read(level, calls)
    group, aliases = _group(level, clauses, tokens, items)
    if group is None and any(call.over is None and call.name in AGGREGATES for call in calls):
        group = ()
    if group == () and level.select.args.get("having"):
        raise unsupported("HAVING without GROUP BY")
    is_distinct = bool(level.select.args.get("distinct"))
    if is_distinct:
        _require_plain_distinct(level)
    ends = [start for kind, (start, _) in clauses.items() if kind not in {TokenType.FROM, TokenType.WHERE}]
    return Step(
        level=level,
        items=items,
        group=group,
        is_distinct=is_distinct,
        calls=calls,
        aliases=aliases,
        input_end=tokens[min(ends)].start if ends else level.span[1],
    )


def aggregate_operator(first: Token, rest: list[Token], source: list[Token]) -> list[Token]:
    """Return the SELECT for ``|> AGGREGATE expressions GROUP BY expressions``, which selects both."""
    at = next((index for index, token in outermost(rest) if token.token_type == TokenType.GROUP_BY), len(rest))
    aggregates, groups = rest[:at], split(rest[at + 1 :], TokenType.COMMA) if at < len(rest) else []
    written = added(first, (TokenType.SELECT, "SELECT"))
    for number, part in enumerate([*groups, *([aggregates] if aggregates else [])]):
        written += [*(added(first, (TokenType.COMMA, ",")) if number else []), *part]
    written += source
    for number, part in enumerate(groups):
        if len(part) == 1 and part[0].token_type == TokenType.NUMBER:
            raise refused("a number after GROUP BY in |> AGGREGATE", "write the expression")
        before = added(first, (TokenType.COMMA, ",")) if number else [rest[at]]
        written += [*before, *_without_alias(part)]
    return written


def _without_alias(part: Sequence[Token]) -> Sequence[Token]:
    """Return the tokens of an expression of a pipe operator without ``AS name``."""
    if type_at(part, len(part) - 2) == TokenType.ALIAS:
        return part[:-2]
    if len(part) > 1 and not (len(part) == 3 and type_at(part, 1) == TokenType.DOT):  # noqa: PLR2004 - relation.column
        raise refused("an expression without an alias after GROUP BY in |> AGGREGATE", "write GROUP BY … AS name")
    return part


def _clauses(level: Level) -> Iterator[tuple[TokenType, tuple[int, int]]]:
    """Yield the clauses that the tree has: where each begins, and where it ends, as indexes of tokens."""
    tokens, places = level.tokens, dict[TokenType, int]()
    for index, token in outermost(tokens):
        argument = _CLAUSES.get(token.token_type)
        is_first_from = token.token_type != TokenType.FROM or TokenType.FROM not in places
        after_from = token.token_type == TokenType.FROM or TokenType.FROM in places
        if argument and level.select.args.get(argument) and is_first_from and after_from:
            places[token.token_type] = index
    ordered = sorted(places.items(), key=lambda place: place[1])
    if len(ordered) != sum(bool(level.select.args.get(argument)) for argument in _CLAUSES.values()):
        raise InvalidJobError("the query has a syntax error: its clauses cannot be told apart")
    ends = [*(start for _, start in ordered[1:]), len(tokens)]
    for (kind, start), end in zip(ordered, ends, strict=True):
        yield kind, (start, end)


def _items(level: Level, tokens: list[Token]) -> Iterator[Term]:
    """Yield the expressions that a step selects, without stars."""
    first = next((index for index, token in enumerate(tokens) if token.token_type not in _BEFORE_LIST), len(tokens))
    parts = split(tokens[first:], TokenType.COMMA)
    trees = level.select.expressions
    if len(parts) != len(trees):
        raise InvalidJobError("the query has a syntax error: its list of columns cannot be told apart")
    for part, tree in zip(parts, trees, strict=True):
        if isinstance(tree, exp.Aliases):
            raise refused("an alias with several names", "give each expression one alias")
        if not tree.is_star:
            yield named_term(part, level.alias, tree.alias if isinstance(tree, exp.Alias) else "")


def _group(
    level: Level, clauses: dict[TokenType, tuple[int, int]], tokens: list[Token], items: tuple[Term, ...]
) -> tuple[tuple[Term, ...] | None, frozenset[str]]:
    """Return the expressions that a step groups by, and the aliases among them."""
    group = level.select.args.get("group")
    if group is None:
        return None, frozenset()
    start, end = clauses[TokenType.GROUP_BY]
    inside = tokens[start + 1 : end]
    if len(inside) == 1 and inside[0].token_type == TokenType.ALL:
        return _group_all(level, items), frozenset()
    found, aliases = [], set()
    for written in terms(inside, level.alias):
        resolved = _resolved(level, written, items)
        if resolved is not written and resolved.meaning != written.meaning and written.name:
            aliases.add(written.name.lower())
        found.append(resolved)
    return tuple(found), frozenset(aliases)


def _group_all(level: Level, items: tuple[Term, ...]) -> tuple[Term, ...]:
    if any(tree.find(exp.Window) for tree in level.select.expressions) or level.star_without is not None:
        raise refused("GROUP BY ALL with windows or *", "write out what it groups by")
    return tuple(item for item in items if not list(calls_of(item.tokens, level.alias, {})))


def _resolved(level: Level, written: Term, items: tuple[Term, ...]) -> Term:
    """Return the expression that an item of GROUP BY stands for: that of an alias, or that of a number."""
    first = written.tokens[0]
    if len(written.tokens) == 1 and first.token_type == TokenType.NUMBER and first.text.isdecimal():
        if level.star_without is not None or not 0 < int(first.text) <= len(items):
            raise refused(f"GROUP BY {first.text}, which is the number of no expression", "write the expression")
        return items[int(first.text) - 1]
    if len(written.tokens) > 1 or not written.name:
        return written
    return next((item for item in items if item.name.lower() == written.name.lower()), written)


def _windows(
    clauses: dict[TokenType, tuple[int, int]], tokens: list[Token], relation: str
) -> Iterator[tuple[str, WindowSpec]]:
    """Yield the windows that a step names: ``WINDOW name AS (…)``."""
    if TokenType.WINDOW not in clauses:
        return
    start, end = clauses[TokenType.WINDOW]
    for part in split(tokens[start + 1 : end], TokenType.COMMA):
        opens = (type_at(part, 1), type_at(part, 2), type_at(part, len(part) - 1))
        if opens != (TokenType.ALIAS, TokenType.L_PAREN, TokenType.R_PAREN):
            raise refused("a named window in another form than WINDOW name AS (…)", "write it in that form")
        yield part[0].text.lower(), spec_of(part[3:-1], relation)


def _require_read(level: Level, calls: Sequence[Call]) -> None:
    """Refuse a window that is no call as this module reads it."""
    in_tree = sum(not isinstance(node.this, exp.Identifier) for node in level.select.find_all(exp.Window))
    windows = [call for call in calls if call.over is not None]
    if in_tree != len(windows) or sum(token.token_type == TokenType.OVER for token in level.tokens) != len(windows):
        raise refused("a window in a form that cannot be read", "write function(…) OVER (PARTITION BY … ORDER BY …)")


def _require_plain_distinct(level: Level) -> None:
    if level.star_without is not None:
        raise refused("SELECT DISTINCT *", "name the columns")
    distinct = level.select.args["distinct"]
    if isinstance(distinct, exp.Distinct) and distinct.args.get("on"):
        raise refused("DISTINCT ON", "write row_number() OVER (PARTITION BY …) and filter on it")
