"""The calls of aggregates and window functions in a step, with what follows their arguments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlglot.tokenizer_core import Token, TokenType

from airflow_backfill_provider.shapes.functions import AGGREGATES, WINDOW_FUNCTIONS, called_functions
from airflow_backfill_provider.shapes.group.refusals import refused
from airflow_backfill_provider.shapes.group.terms import Term, term, terms
from airflow_backfill_provider.shapes.token_lists import closing_of, outermost, split, type_at

_FRAMES = frozenset({TokenType.ROWS, TokenType.RANGE})
_WHOLE_FRAME = "rows between unbounded preceding and unbounded following"
_DIRECTIONS = frozenset({"asc", "desc", "nulls", "first", "last"})
_COMPARED = frozenset({TokenType.LIKE, TokenType.ILIKE, TokenType.RLIKE, TokenType.EQ, TokenType.NEQ})
_SORTED = frozenset(
    {("sort_array", TokenType.R_PAREN), ("sort_array", TokenType.COMMA), ("array_sort", TokenType.R_PAREN)}
)
"""Functions that sort an array by its values alone, each with what may follow the array."""


@dataclass(frozen=True, slots=True)
class WindowSpec:
    """
    What follows OVER.

    :param partition: the expressions of PARTITION BY.
    :param order: the expressions of ORDER BY.
    :param counts_rows: whether its frame counts rows, so that the order of equal ones matters.
    """

    partition: tuple[Term, ...]
    order: tuple[Term, ...]
    counts_rows: bool


@dataclass(frozen=True, slots=True)
class Call:
    """
    A call of an aggregate or of a window function.

    :param name: the function's name, in lower case.
    :param arguments: its arguments.
    :param within: the order of WITHIN GROUP; empty if it has none.
    :param over: the window; ``None`` for an aggregate of groups.
    :param is_sorted: whether the result is sorted at once.
    """

    name: str
    arguments: tuple[Term, ...]
    within: tuple[Term, ...]
    over: WindowSpec | None
    is_sorted: bool


def calls_of(tokens: Sequence[Token], relation: str, windows: Mapping[str, WindowSpec]) -> Iterator[Call]:
    """
    Yield the calls of aggregates and of window functions.

    :param tokens: the step's tokens.
    :param relation: the name of the relation that the step reads.
    :param windows: the windows that the step names, by name in lower case.
    :raises InvalidJobError: if a window has a form that cannot be read.
    """
    for opening, name in _called(tokens):
        closing = closing_of(tokens, opening)
        within, at = _after_arguments(tokens, closing + 1, relation)
        over = _window(tokens, at, relation, windows) if type_at(tokens, at) == TokenType.OVER else None
        if name not in AGGREGATES | WINDOW_FUNCTIONS and over is None:
            continue
        arguments = _arguments(tokens[opening + 1 : closing], relation)
        yield Call(name, arguments, within, over, is_sorted=_is_sorted(tokens, opening, at))


def spec_of(tokens: Sequence[Token], relation: str) -> WindowSpec:
    """
    Return a window.

    :param tokens: what stands between its parentheses.
    """
    starts = {token.token_type: index for index, token in outermost(tokens)}
    partition, order = starts.get(TokenType.PARTITION_BY), starts.get(TokenType.ORDER_BY)
    frame = min((starts[kind] for kind in _FRAMES if kind in starts), default=len(tokens))
    known = min(index for index in (partition, order, frame) if index is not None)
    if known > 0 or TokenType.DISTRIBUTE_BY in starts or TokenType.CLUSTER_BY in starts:
        raise refused("a window in another form than OVER (PARTITION BY … ORDER BY …)", "write it in that form")
    end = order if order is not None else frame
    partition_terms = () if partition is None else terms(tokens[partition + 1 : end], relation)
    order_terms = () if order is None else order_of(tokens[order + 1 : frame], relation)
    written = " ".join(token.text.lower() for token in tokens[frame:])
    counts_rows = written.startswith("rows") and written != _WHOLE_FRAME
    return WindowSpec(partition_terms, order_terms, counts_rows)


def order_of(tokens: Sequence[Token], relation: str) -> tuple[Term, ...]:
    """Return the expressions of an ORDER BY, without their directions."""
    found = []
    for part in split(list(tokens), TokenType.COMMA):
        end = len(part)
        while end > 1 and _is_direction(part, end - 1):
            end -= 1
        if end and part:
            found.append(term(part[:end], relation))
    return tuple(found)


def _is_direction(tokens: Sequence[Token], index: int) -> bool:
    """Return whether a token says in which direction rows are ordered; a column may have the name of one."""
    is_name = tokens[index].token_type is TokenType.IDENTIFIER or type_at(tokens, index - 1) is TokenType.DOT
    return tokens[index].text.lower() in _DIRECTIONS and not is_name


def _called(tokens: Sequence[Token]) -> Iterator[tuple[int, str]]:
    """Yield the index of each parenthesis after a function's name, and the name without its qualifiers."""
    yield from ((opening, called[-1]) for opening, called in called_functions(tokens))
    for index, token in enumerate(tokens):
        # LIKE ANY (…) and = ANY (…) are comparisons.
        is_word = token.text.lower() in {"any", "some"} and token.token_type != TokenType.IDENTIFIER
        follows = type_at(tokens, index + 1) == TokenType.L_PAREN
        if is_word and follows and type_at(tokens, index - 1) not in _COMPARED | {TokenType.DOT}:
            yield index + 1, token.text.lower()


def _after_arguments(tokens: Sequence[Token], at: int, relation: str) -> tuple[tuple[Term, ...], int]:
    """Return the order of WITHIN GROUP, and the index after it, FILTER and IGNORE NULLS."""
    within: tuple[Term, ...] = ()
    while True:
        words = [token.text.lower() for token in tokens[at : at + 3]]
        if words[:2] == ["filter", "("]:
            at = closing_of(tokens, at + 1) + 1
        elif words == ["within", "group", "("]:
            closing = closing_of(tokens, at + 2)
            inside = tokens[at + 3 : closing]
            within = order_of(inside[1:] if type_at(inside, 0) == TokenType.ORDER_BY else inside, relation)
            at = closing + 1
        elif words[:2] in (["ignore", "nulls"], ["respect", "nulls"]):
            at += 2
        else:
            return within, at


def _is_sorted(tokens: Sequence[Token], opening: int, end: int) -> bool:
    """Return whether a call's result is all that a function sorts."""
    before = tokens[opening - 3].text.lower() if opening > 2 else ""  # noqa: PLR2004 - the function, (, the call's name
    return type_at(tokens, opening - 2) == TokenType.L_PAREN and (before, type_at(tokens, end)) in _SORTED


def _window(tokens: Sequence[Token], over: int, relation: str, windows: Mapping[str, WindowSpec]) -> WindowSpec:
    if type_at(tokens, over + 1) == TokenType.L_PAREN:
        inside = tokens[over + 2 : closing_of(tokens, over + 1)]
        if len(inside) == 1:
            return _named(inside[0], windows)
        return spec_of(inside, relation) if inside else WindowSpec((), (), counts_rows=False)
    if over + 1 >= len(tokens):
        raise refused("OVER without a window", "write OVER (PARTITION BY …)")
    return _named(tokens[over + 1], windows)


def _named(name: Token, windows: Mapping[str, WindowSpec]) -> WindowSpec:
    try:
        return windows[name.text.lower()]
    except KeyError:
        raise refused(f"the window {name.text}, which it does not define", "add WINDOW … AS (PARTITION BY …)") from None


def _arguments(tokens: Sequence[Token], relation: str) -> tuple[Term, ...]:
    plain = [token for index, token in enumerate(tokens) if index or token.token_type != TokenType.DISTINCT]
    return terms(plain, relation)
