"""Where the relations of a FROM and the subqueries of a WHERE stand among a SELECT's tokens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlglot.tokenizer_core import Token, TokenType

from airflow_backfill_provider.shapes.joined.refusals import unsupported
from airflow_backfill_provider.shapes.token_lists import added, closing_of, outermost, type_at

_ENDS = frozenset(
    {
        TokenType.WHERE,
        TokenType.GROUP_BY,
        TokenType.HAVING,
        TokenType.QUALIFY,
        TokenType.WINDOW,
        TokenType.ORDER_BY,
        TokenType.SORT_BY,
        TokenType.CLUSTER_BY,
        TokenType.DISTRIBUTE_BY,
        TokenType.LIMIT,
        TokenType.OFFSET,
        TokenType.FETCH,
    }
)
_BEGINS = frozenset({TokenType.SELECT, TokenType.WITH, TokenType.FROM})
_OPERATORS = {TokenType.UNION: "UNION", TokenType.INTERSECT: "INTERSECT", TokenType.EXCEPT: "EXCEPT"}


@dataclass(frozen=True, slots=True)
class Subquery:
    """
    A subquery in WHERE.

    :param opening: the index of its opening parenthesis.
    :param closing: the index of its closing parenthesis.
    :param is_in: whether IN stands before it, or else EXISTS.
    """

    opening: int
    closing: int
    is_in: bool


@dataclass(frozen=True, slots=True)
class Branch:
    """
    A branch of a set operation.

    :param tokens: its tokens.
    :param is_distinct: whether duplicates are removed after it.
    """

    tokens: list[Token]
    is_distinct: bool


def end_of_from(tokens: Sequence[Token], at: int) -> int:
    """
    Return the index after the last token of a FROM.

    :param at: the index of FROM.
    """
    inside = (index for index, token in outermost(tokens) if index > at and token.token_type in _ENDS)
    return next(inside, len(tokens))


def relation_starts(tokens: Sequence[Token], at: int) -> Iterator[int]:
    """
    Yield the index of each relation's first token in a FROM.

    :param at: the index of FROM.
    :raises InvalidJobError: if a relation is no table, subquery or common table expression.
    """
    end = end_of_from(tokens, at)
    for index, token in outermost(tokens[:end]):
        begins = index == at or (index > at and token.token_type in {TokenType.JOIN, TokenType.COMMA})
        if index > at and token.token_type == TokenType.LATERAL:
            raise unsupported("LATERAL VIEW" if type_at(tokens, index + 1) == TokenType.VIEW else "LATERAL")
        if begins and index + 1 < end:
            _require_relation(tokens, index + 1)
            yield index + 1


def subqueries(tokens: Sequence[Token]) -> Iterator[Subquery]:
    """
    Yield the subqueries in a SELECT's WHERE.

    :raises InvalidJobError: if it has a subquery elsewhere, or one that is not EXISTS (…) or IN (…).
    """
    where = next((index for index, token in outermost(tokens) if token.token_type == TokenType.WHERE), len(tokens))
    end = end_of_from(tokens, where)
    index = 0
    while index < len(tokens):
        if type_at(tokens, index) != TokenType.L_PAREN or not _begins_query(tokens, index + 1):
            index += 1
            continue
        before, closing = type_at(tokens, index - 1), closing_of(tokens, index)
        if before not in {TokenType.IN, TokenType.EXISTS}:
            raise unsupported("a scalar subquery")
        if not where < index < end:
            raise unsupported("a subquery in another place than WHERE")
        yield Subquery(index, closing, before == TokenType.IN)
        index = closing + 1


def with_markers(tokens: Sequence[Token], found: Sequence[Subquery]) -> list[Token]:
    """
    Return tokens with a name in place of each subquery, and of EXISTS before it.

    :param found: the subqueries, in order.
    """
    written: list[Token] = []
    end = 0
    for number, subquery in enumerate(found):
        first = subquery.opening + 1 if subquery.is_in else subquery.opening - 1
        last = subquery.closing - 1 if subquery.is_in else subquery.closing
        written += [*tokens[end:first], *added(tokens[first], (TokenType.VAR, marker(number)))]
        end = last + 1
    return [*written, *tokens[end:]]


def marker(number: int) -> str:
    """Return the name that stands for a subquery."""
    return f"__subquery_{number}"


def branches(tokens: Sequence[Token]) -> list[Branch]:
    """
    Return the branches of a set operation; one if there is none.

    :raises InvalidJobError: if it is no union, or one that removes duplicates of some branches alone.
    """
    found = [Branch([], is_distinct=False)]
    skips = 0
    for index, token in enumerate(tokens):
        if skips:
            skips -= 1
        elif _is_operator(tokens, index):
            is_all = type_at(tokens, index + 1) == TokenType.ALL
            skips = int(is_all or type_at(tokens, index + 1) == TokenType.DISTINCT)
            found.append(Branch([], is_distinct=not is_all))
        else:
            found[-1].tokens.append(token)
    operators = [branch.is_distinct for branch in found[1:]]
    if any(operators) and not operators[-1]:
        raise unsupported("UNION before UNION ALL")
    return found


def _is_operator(tokens: Sequence[Token], index: int) -> bool:
    """Return whether a set operator outside of parentheses stands at an index."""
    token = tokens[index]
    if token.token_type not in _OPERATORS and token.text.lower() != "minus":
        return False
    depth = sum({TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}.get(found.token_type, 0) for found in tokens[:index])
    after = index + 1
    if type_at(tokens, after) in {TokenType.ALL, TokenType.DISTINCT}:
        after += 1
    if after + 1 < len(tokens) and [found.text.lower() for found in tokens[after : after + 2]] == ["by", "name"]:
        raise unsupported("UNION BY NAME")
    is_operator = (
        depth == 0 and index > 0 and (_begins_query(tokens, after) or type_at(tokens, after) == TokenType.VALUES)
    )
    if is_operator and token.token_type != TokenType.UNION:
        raise unsupported(_OPERATORS.get(token.token_type, "EXCEPT"))
    return is_operator


def _begins_query(tokens: Sequence[Token], index: int) -> bool:
    while type_at(tokens, index) == TokenType.L_PAREN:
        index += 1
    return type_at(tokens, index) in _BEGINS


def _require_relation(tokens: Sequence[Token], index: int) -> None:
    token = tokens[index]
    if token.token_type == TokenType.VALUES:
        raise unsupported("VALUES")
    if token.token_type == TokenType.L_PAREN:
        if not _begins_query(tokens, index + 1):
            is_values = type_at(tokens, index + 1) == TokenType.VALUES
            raise unsupported("VALUES" if is_values else "parentheses around joins")
    elif type_at(tokens, index + 1) == TokenType.L_PAREN and token.token_type != TokenType.LATERAL:
        raise unsupported("a table function")
