"""
The list of columns of a grouping step over the results of its aggregates.

A fold gives the value of each aggregate. An item such as ``sum(a) / count(*)`` is computed from these: in its text, the
calls are replaced by the names of their results. What is left of the text may have no name of a column, because a
column might be an input of the step, or an alias beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from sqlglot.tokenizer_core import Token, TokenType

from airflow_backfill_provider.core.job.sql import quote
from airflow_backfill_provider.shapes.functions import AGGREGATES, called_functions
from airflow_backfill_provider.shapes.group.fold.functions import never_folded
from airflow_backfill_provider.shapes.group.fold.reasons import HAVING, NotFolded, Reason
from airflow_backfill_provider.shapes.group.steps import Step
from airflow_backfill_provider.shapes.group.terms import Term
from airflow_backfill_provider.shapes.group.units import Units
from airflow_backfill_provider.shapes.token_lists import closing_of, split, type_at

_VALUES = frozenset({TokenType.NUMBER, TokenType.STRING})
KEYWORDS = frozenset(
    "and as between case cast div else end false in is like not null or then true try_cast when".split()
)
"""Words of expressions. No query over an upstream with a column of such a name is folded."""

_TYPES = frozenset("bigint boolean date decimal double float int integer string timestamp".split())
"""Names of types, which columns often have, too."""

_UNION = NotFolded(
    Reason.STEPS,
    "UNION",
    "it has no list of columns of its own",
    "write SELECT DISTINCT … FROM (SELECT … UNION ALL SELECT …), with the names of the columns",
)


@dataclass(frozen=True, slots=True)
class WrittenCall:
    """
    A call of an aggregate as the user wrote it.

    :param function: the function's name, in lower case.
    :param arguments: the texts of its arguments, without DISTINCT.
    :param condition: the text of its FILTER; ``None`` if it has none.
    :param text: all of it.
    :param output: the name of its result.
    """

    function: str
    arguments: tuple[str, ...]
    is_distinct: bool
    condition: str | None
    text: str
    output: str


@dataclass(frozen=True, slots=True)
class Items:
    """
    The list of columns of a step.

    :param calls: its calls of aggregates.
    :param columns: its items as SQL over the units and the results of the calls, in order; without hidden columns.
    """

    calls: tuple[WrittenCall, ...]
    columns: tuple[str, ...]


def items_of(steps: Sequence[Step], units: Units, query: str, names: frozenset[str]) -> Items | NotFolded:
    """
    Return the list of columns of a query's grouping step, or why it cannot be computed from results.

    :param units: the query's units.
    :param query: the query's text.
    :param names: the names in lower case that results must not have.
    """
    if refusal := _other_form(steps, units) if steps else _UNION:
        return refusal
    step = steps[-1]
    prefix = "result"
    while any(name.startswith(prefix) for name in names):
        prefix = f"a_{prefix}"
    calls: list[WrittenCall] = []
    columns = []
    for item in step.items:
        written = _item(item, units, query, calls, prefix)
        if isinstance(written, NotFolded):
            return written
        columns.append(written)
    columns += [quote(added.name) for added in units.added]
    return Items(tuple(calls), tuple(columns))


def without_types(steps: Sequence[Step], units: Units, query: str) -> NotFolded | None:
    """Return why a query cannot be folded, as far as its text tells it; the parameters are those of the items."""
    found = items_of(steps, units, query, frozenset())
    if isinstance(found, NotFolded):
        return found
    if steps[-1].level.select.args.get("having"):
        return HAVING
    refusals = (never_folded(call.function, call.text, is_distinct=call.is_distinct) for call in found.calls)
    return next((refusal for refusal in refusals if refusal is not None), None)


def _other_form(steps: Sequence[Step], units: Units) -> NotFolded | None:
    """Return why the last step is none that can be folded."""
    step, level = steps[-1], steps[-1].level
    if units.first != len(steps) - 1:
        return NotFolded(Reason.STEPS, "a query with a step after its grouping", "that step needs whole groups")
    if level.relation is None or level.is_piped or level.end_of_list is None or level.star_without is not None:
        return NotFolded(
            Reason.STEPS, "|> AGGREGATE, or a star", "it has no list of columns", "write SELECT … GROUP BY"
        )
    if any(call.over is not None for call in step.calls) or (step.is_distinct and step.group is not None):
        return NotFolded(Reason.STEPS, "a window, or DISTINCT over groups", "it needs whole groups")
    if step.group is None and not step.is_distinct:
        return NotFolded(Reason.STEPS, "a step without groups", "it has no aggregates")
    if step.group is not None and len({found.meaning for found in step.group}) != len(units.terms):
        return NotFolded(Reason.STEPS, "a grouping that is finer than its units", "a unit has several rows")
    return None


def _item(item: Term, units: Units, query: str, calls: list[WrittenCall], prefix: str) -> str | NotFolded:
    """Return an item as SQL over units and results; its calls are added to the list."""
    for unit, output in zip(units.terms, units.outputs, strict=True):
        if item.meaning == unit.meaning:
            return quote(output)
    written, at = "", 0
    tokens = item.tokens
    for opening, end, call in _calls(tokens, query, lambda: f"{prefix}_{len(calls)}"):
        if problem := _problem(tokens[at : opening - 1], item.text(query)):
            return problem
        known = next((other for other in calls if other.text == call.text), None)
        if known is None:
            calls.append(call)
        start = tokens[at].start if at < opening - 1 else tokens[opening - 1].start
        written += f"{query[start : tokens[opening - 1].start]}{quote((known or call).output)} "
        at = end
    if problem := _problem(tokens[at:], item.text(query)):
        return problem
    return written + (query[tokens[at].start : tokens[-1].end + 1] if at < len(tokens) else "")


def _calls(tokens: Sequence[Token], query: str, output: Callable[[], str]) -> Iterator[tuple[int, int, WrittenCall]]:
    """Yield the index of each call's parenthesis, the index after the call, and the call."""
    end = 0
    for opening, name in called_functions(tokens):
        if opening < end or name[-1] not in AGGREGATES or len(name) > 1:
            continue
        closing = closing_of(tokens, opening)
        is_distinct = type_at(tokens, opening + 1) == TokenType.DISTINCT
        arguments = split(list(tokens[opening + 1 + is_distinct : closing]), TokenType.COMMA)
        end, condition = closing + 1, None
        if [token.text.lower() for token in tokens[end : end + 3]] == ["filter", "(", "where"]:
            last = closing_of(tokens, end + 1)
            condition = query[tokens[end + 3].start : tokens[last - 1].end + 1]
            end = last + 1
        yield (
            opening,
            end,
            WrittenCall(
                function=name[0],
                arguments=tuple(query[part[0].start : part[-1].end + 1] for part in arguments if part),
                is_distinct=is_distinct,
                condition=condition,
                text=query[tokens[opening - 1].start : tokens[end - 1].end + 1],
                output=output(),
            ),
        )


def _problem(tokens: Sequence[Token], item: str) -> NotFolded | None:
    """Return why tokens beside calls cannot be computed from results; ``None`` if they have no names of columns."""
    for index, token in enumerate(tokens):
        is_name = token.text[:1].isalpha() or token.text[:1] == "_" or token.token_type == TokenType.IDENTIFIER
        is_called = type_at(tokens, index + 1) == TokenType.L_PAREN and token.token_type != TokenType.IDENTIFIER
        if token.token_type in _VALUES or (not is_name and token.token_type != TokenType.DOT):
            continue
        if not is_called and (not _is_keyword(tokens, index) or token.token_type == TokenType.IDENTIFIER):
            return NotFolded(
                Reason.EXPRESSION,
                item,
                f"{token.text} is neither a whole item nor in an aggregate",
                "select the aggregates alone, and compute with them in a second job",
            )
    return None


def _is_keyword(tokens: Sequence[Token], index: int) -> bool:
    """Return whether a word is one of expressions, or a type after AS or before a literal."""
    word = tokens[index].text.lower()
    is_type = type_at(tokens, index - 1) == TokenType.ALIAS if index else False
    return word in KEYWORDS or (word in _TYPES and (is_type or type_at(tokens, index + 1) == TokenType.STRING))
