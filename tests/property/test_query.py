"""Hidden key columns are spliced into a query at the right position, whatever is written between its words."""

from __future__ import annotations

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_backfill_provider.core.job.sql import quote
from airflow_backfill_provider.shapes.row.query import check_query

COMMENTS = [" /* FROM upstream */ ", " -- FROM `x` WHERE '\n", "/**/ ", " /*ünï 😀*/\n"]
SPACE = st.sampled_from([" ", "\n", "\t", "\r\n", "  ", *COMMENTS])
EXPRESSIONS = st.sampled_from(
    [
        "amount",
        "`from`",
        "' FROM upstream '",
        '"its -- no comment"',
        "trim(BOTH 'x' FROM name)",
        "extract(year FROM (ts))",
        "a IS DISTINCT FROM b",
        "(a IS NOT DISTINCT FROM (b))",
        "CASE WHEN a THEN 'FROM' ELSE \"upstream\" END",
        "transform(items, i -> i + 1)[0]",
        "s.`from`.x",
        "'😀' || name",
    ]
)
ALIASES = st.none() | st.sampled_from(["x", "`from`", "`a b`", "`ba``ck`", "ünï"])
RELATIONS = st.sampled_from(["upstream", "UPSTREAM", "`upstream`"])
RELATION_ALIASES = st.none() | st.sampled_from(["u", "`from`", "`u x`", "`o'``b`"])
KEYS = st.lists(st.sampled_from(["id", "order id", "a.b", "ba`ck", "it's"]), min_size=1, max_size=2, unique=True)


@st.composite
def queries(draw):
    """Draw the parts of a query: what is before FROM, from there to the relation, the relation, and the rest."""
    projections = draw(st.lists(st.tuples(EXPRESSIONS, ALIASES), min_size=1, max_size=3))
    columns = f"{draw(SPACE)},{draw(SPACE)}".join(
        expression if alias is None else f"{expression}{draw(SPACE)}AS{draw(SPACE)}{alias}"
        for expression, alias in projections
    )
    head = f"SELECT{draw(SPACE)}{columns}{draw(SPACE)}"
    between = f"{draw(st.sampled_from(['FROM', 'from']))}{draw(SPACE)}"
    relation, alias = draw(RELATIONS), draw(RELATION_ALIASES)
    tail = "" if alias is None else f"{draw(SPACE)}{alias}"
    if draw(st.booleans()):
        tail += f"{draw(SPACE)}WHERE{draw(SPACE)}{draw(EXPRESSIONS)} IS NOT NULL"
    return head, between, relation, alias, tail


def without_comments(text):
    """Return a query's text with blanks in place of its comments."""
    for comment in COMMENTS:
        text = text.replace(comment, re.sub(r"[^\n]", " ", comment))
    return text


@settings(max_examples=60)
@given(queries(), KEYS, st.sampled_from(["", ";", " ;\n"]))
def test_the_splice_touches_nothing_but_the_relation(parts, keys, end):
    """Spark runs the very expressions that were written."""
    head, between, relation, alias, tail = parts
    query = check_query(head + between + relation + tail + end)
    head, between, tail = map(without_comments, (head, between, tail))
    called = alias or relation
    called = called if called.startswith("`") else f"`{called}`"
    hidden = "".join(f", {called}.{quote(key)} AS {quote('__key_' + key)}" for key in keys)
    named = "" if alias else f" AS {called}"
    assert query.hidden_keys(keys) == {key: f"__key_{key}" for key in keys}
    assert query.render("the `relation`", keys) == (
        f"{head.rstrip()}\n{hidden} {between}`the ``relation```{named}{tail}".rstrip()
    )
