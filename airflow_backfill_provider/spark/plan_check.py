"""
Checks the plan that Spark makes of a query, before the query runs.

A query's text is checked with another parser than Spark's. This check does not depend on that parser: it looks at what
Spark itself understands, at the tables that are read and at the operators on them. ``EXPLAIN`` prints the plan as a
text, the only form that Spark Connect offers, and prints names and texts of the query as they are. So the query is
explained with line ends and escapes replaced in its names and texts. Then each line is Spark's own, and no text of a
user can look like one.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.job.spark_tokens import SparkToken, TokenKind, spark_tokens, text_value
from airflow_backfill_provider.core.job.sql import text_literal

_SECTIONS = tuple(
    f"== {name} ==" for name in ("Parsed Logical Plan", "Analyzed Logical Plan", "Optimized Logical Plan")
)
_NODE = re.compile(r"(?P<indent>(?:[: ] {2})*(?:[:+]- )?)(?P<name>\w+)(?P<rest>.*)")
_ROWS = frozenset({"LocalRelation", "LogicalRDD"})
"""Nodes of rows that the session itself holds; other relations are tables, views, files and functions."""

_OVER_SEVERAL = frozenset({"Except", "Intersect", "Join", "Union"})
"""Nodes over several relations, each of which may read the upstream again; a shape has to announce them."""

_SUBQUERY, _SUBQUERY_IN_VALUES = "Subquery", "SubqueryInValues"
"""Stand for the plans inside of the expressions of conditions, and of values; a shape has to announce them, too."""

_CONDITIONS, _VALUES = frozenset({"Filter"}), frozenset({"Aggregate", "Project"})
"""Nodes with such expressions."""

_REFLECTION = re.compile(r"\b(?:try_)?(?:reflect|java_method)\(", re.IGNORECASE)
_LINE_OR_ESCAPE = re.compile(r"""\\(?!")|[\r\n]""")
"""What is or may become the end of a line: a schema in JSON has escapes of its own."""

_LINE_END = "␤"


@dataclass(frozen=True, slots=True)
class _Node:
    """A node of a plan: the first word of its line, the rest of the line, and its children."""

    name: str
    rest: str
    children: list[_Node] = field(default_factory=list)


def explainable(sql: str) -> str:
    """
    Return a query that Spark plans as it plans another one, and whose names and texts cannot look like a plan.

    Only characters inside of quotes differ.

    :param sql: the query, as it runs.
    """
    written, position = [], 0
    for token in spark_tokens(sql):
        written += [sql[position : token.start], _harmless(sql[token.start : token.end], token)]
        position = token.end
    return "".join([*written, sql[position:]])


def explainable_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON of a schema whose names are as those in :func:`explainable`."""
    return {key: _with_harmless_names(value, key) for key, value in schema.items()}


def require_announced_plan(explained: str, relation: str, nodes: Collection[str], others: Collection[str] = ()) -> None:
    """
    Refuse a query that reads anything but some relations, or does anything that its shape did not announce.

    :param explained: what ``EXPLAIN EXTENDED`` prints for the query, as of :func:`explainable`.
    :param relation: the relation that it reads, a temporary view over rows of the session, with a name that nobody
        could know when the query was written.
    :param nodes: the names of the nodes that the query's plan may have.
    :param others: the further relations that it reads, likewise; none if there is one upstream.
    :raises InvalidJobError: with the node.
    """
    lines = _analysed(explained.split("\n"))
    found = _tree(lines, nodes)
    defined = read = 0
    bound = dict.fromkeys((relation, *others), 0)
    for node in found:
        if node.name == "SubqueryAlias" and (name := node.rest.strip()) in bound:
            _require_bound(node, name)
            bound[name] += 1
        elif not node.children and node.name != "CTERelationRef" and node.name not in _ROWS:
            raise _unannounced(f"reads {node.name}, which is not the upstream")
        if node.name not in {*nodes, "SubqueryAlias", "View", *_ROWS}:
            raise _unannounced(f"has {node.name}, which no check of the query's text found")
        inputs = [child for child in node.children if child.name != _SUBQUERY]
        if len(inputs) > 1 and node.name not in {"WithCTE", _SUBQUERY, *_OVER_SEVERAL}:
            raise _unannounced(f"has {node.name} over several relations, which no check of the query's text found")
        defined += node.name == "CTERelationDef"
        read += node.name == "CTERelationRef"
    reads_again = not _OVER_SEVERAL.isdisjoint(nodes)
    as_announced = all(times == 1 or (times and reads_again) for times in bound.values())
    if not as_announced or sum(node.name in _ROWS for node in found) != sum(bound.values()):
        raise _unannounced("reads other rows than those of the upstream")
    if defined != read and not (defined < read and reads_again):
        raise _unannounced("reads a common table expression several times")
    if call := next(filter(None, map(_REFLECTION.search, lines)), None):
        raise _unannounced(f"calls {call.group()[:-1]}, which runs code of the JVM")


def _harmless(written: str, token: SparkToken) -> str:
    """Return a token without what may make a line of a plan, or look like a call."""
    match token.kind:
        case TokenKind.TEXT | TokenKind.RAW_TEXT:
            return text_literal(_without_calls(_LINE_OR_ESCAPE.sub(" ", text_value(written))))
        case TokenKind.QUOTED_NAME:
            return _harmless_name(written)
        case _:
            return written


def _harmless_name(name: str) -> str:
    return _without_calls(name.replace("\r", _LINE_END).replace("\n", _LINE_END))


def _without_calls(text: str) -> str:
    return _REFLECTION.sub(lambda found: f"{found.group()[:-1]}[", text)


def _with_harmless_names(value: Any, key: str) -> Any:
    if isinstance(value, Mapping):
        return value if key == "metadata" else explainable_schema(value)
    if isinstance(value, list):
        return [_with_harmless_names(item, key) for item in value]
    return _harmless_name(value) if key == "name" else value


def _analysed(lines: Sequence[str]) -> Sequence[str]:
    """Return the lines of the analysed plan."""
    places = [[index for index, line in enumerate(lines) if line == section] for section in _SECTIONS]
    if any(len(found) != 1 for found in places):
        raise _unannounced("cannot be told from the query's own texts")
    # The first line has the names and types of the columns.
    return [line for line in lines[places[1][0] + 2 : places[2][0]] if line]


def _tree(lines: Sequence[str], announced: Collection[str]) -> list[_Node]:
    """
    Return a plan's nodes from its lines, which are indented by three characters for each level.

    :param announced: the nodes that the plan may have.
    """
    nodes: list[_Node] = []
    path: list[_Node] = []

    with_subqueries = {
        *(_CONDITIONS if _SUBQUERY in announced else ()),
        *(_VALUES if _SUBQUERY_IN_VALUES in announced else ()),
    }

    def add(node: _Node) -> None:
        if path:
            path[-1].children.append(node)
        path.append(node)
        nodes.append(node)

    for line in lines:
        found = _NODE.fullmatch(line)
        depth = len(found["indent"]) // 3 if found else 0
        # Spark indents the plans inside of expressions by one more level.
        if path and path[-1].name in with_subqueries and depth == len(path) + 1:
            add(_Node(_SUBQUERY, ""))
        if depth > len(path):
            raise _unannounced("has a subquery, which no check of the query's text found")
        if found is None or (depth == 0) is not (not path):
            raise _unannounced("has a line that is no operator")
        del path[depth:]
        add(_Node(found["name"], found["rest"]))
    if not nodes:
        raise _unannounced("is empty")
    return nodes


def _require_bound(node: _Node, relation: str) -> None:
    """Refuse a relation with the right name that is not the bound view over rows of the session."""
    view = node.children[0] if node.children else node
    is_ours = view.name == "View" and view.rest.startswith(f" (`{relation}`, ")
    if not (is_ours and [rows.name in _ROWS and not rows.children for rows in view.children] == [True]):
        raise _unannounced("reads another relation under the upstream's name")


def _unannounced(what: str) -> InvalidJobError:
    return InvalidJobError(f"query: Spark's plan of it {what}; write a SELECT over the upstream alone")
