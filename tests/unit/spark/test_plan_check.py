"""Spark's plan of a query has what the query's shape announced, and no text of a query can look like a plan."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.shapes.queries import (
    OF_ONE_RELATION,
    OF_ROWS,
    OF_SEVERAL_READINGS,
    SUBQUERY,
    SUBQUERY_IN_VALUES,
)
from airflow_backfill_provider.spark.plan_check import explainable, explainable_schema, require_announced_plan

RELATION = "backfill_upstream_0123"
BOUND = f"""SubqueryAlias {RELATION}
+- View (`{RELATION}`, [id#0L, t#1])
   +- LogicalRDD [id#0L, t#1], false"""


def explained(plan: str, columns: str = "id: bigint") -> str:
    return "\n".join(
        [
            *("== Parsed Logical Plan ==", "'Project ['id]", "+- 'UnresolvedRelation [r], [], false", ""),
            *("== Analyzed Logical Plan ==", columns, plan, ""),
            *("== Optimized Logical Plan ==", "LocalRelation <empty>, [id#0L]", "", "== Physical Plan ==", ""),
        ]
    )


def below(*lines: str) -> str:
    """Return a chain of nodes over the bound relation."""
    chain = [*lines, *BOUND.split("\n")[:1]]
    depth = len(lines)
    rest = [f"{'   ' * depth}{line}" for line in BOUND.split("\n")[1:]]
    return "\n".join([*(f"{'   ' * (i - 1)}+- {line}" if i else line for i, line in enumerate(chain)), *rest])


CTE = f"""WithCTE
:- CTERelationDef 0, false
:  +- SubqueryAlias a
:     +- Project [id#0L]
:        +- SubqueryAlias {RELATION}
:           +- View (`{RELATION}`, [id#0L])
:              +- LocalRelation <empty>, [id#0L]
+- Project [id#5L]
   +- SubqueryAlias a
      +- CTERelationRef 0, true, [id#5L], false, false"""


@pytest.mark.parametrize(
    "plan",
    [
        below("Project [id#0L]", "Filter (id#0L > 1)", "SubqueryAlias upstream"),
        below("Project [reflect AS x#1, text.path#2]", "SubqueryAlias `Relation [x] text`"),
        below("Project [t#1]", "PipeOperator", "Project [id#0L]"),
        CTE,
    ],
)
def test_a_plan_of_rows_of_the_upstream_is_accepted(plan: str) -> None:
    require_announced_plan(explained(plan), RELATION, OF_ROWS)


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        ("Project [value#0]\n+- Relation [value#0] text", "reads Relation, which is not the upstream"),
        (below("Aggregate [count(1)]"), "has Aggregate"),
        (below("Project [x#1]", "Generate explode(array(1)), false, [x#1]"), "has Generate"),
        (below("ScriptTransformation cat, [x#1], ScriptInputOutputSchema()"), "has ScriptTransformation"),
        (below("Project [reflect(java.lang.System, getProperty, a, true) AS x#1]"), "calls reflect"),
        (below("Project [try_reflect(a, b, true) AS x#1]"), "calls try_reflect"),
        ("Project [1 AS 1#0]\n+- OneRowRelation", "reads OneRowRelation"),
        ("Project [id#0L]\n+- LocalRelation [id#0L]", "other rows than those of the upstream"),
        (
            "Project [scalar-subquery#1 [] AS x#2]\n:  +- Project [1 AS 1#3]\n:     +- OneRowRelation\n"
            + below("Project [id#0L]").replace("Project [id#0L]\n", ""),
            "has a subquery",
        ),
        ("Project [a#1]\n:- OneRowRelation\n+- OneRowRelation", "has Project over several relations"),
        ("Join Inner\n:- Project [a#1]\n:  +- OneRowRelation\n+- OneRowRelation", "has Join"),
        (CTE.replace("Project [id#5L]", "Join Inner\n   :- CTERelationRef 0, true, [id#5L]"), "has Join"),
        (CTE.replace("LocalRelation <empty>", "Relation"), "another relation under the upstream's name"),
        (below("Project [id#0L]").replace(f"View (`{RELATION}`", "View (`theirs`"), "another relation"),
        (below("Project [id#0L]").replace(RELATION, "theirs"), "reads other rows"),
        (below("Project [a", "b#1]"), "has b, which"),
        ("Project [id#0L]\n=> forged", "a line that is no operator"),
        ("", "is empty"),
    ],
)
def test_a_plan_with_anything_else_is_refused(plan: str, said: str) -> None:
    with pytest.raises(InvalidJobError) as caught:
        require_announced_plan(explained(plan), RELATION, OF_ROWS)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_shape_of_groups_may_announce_an_aggregate_but_no_second_relation() -> None:
    require_announced_plan(explained(below("Aggregate [id#0L], [id#0L]")), RELATION, OF_ONE_RELATION)
    with pytest.raises(InvalidJobError, match="reads Relation"):
        require_announced_plan(explained("Aggregate [x#0]\n+- Relation [x#0] csv"), RELATION, OF_ONE_RELATION)


WITH_EXISTS = """Project [id#0L]
+- Filter (exists#6 [t#1] AND NOT id#0L IN (list#7 []))
   :  :- Project [1 AS 1#14]
   :  :  +- Filter (id#3L = outer(t#1))
   :  :     +- SubqueryAlias dimension
   :  :        +- View (`dimension`, [id#3L])
   :  :           +- LogicalRDD [id#3L], false
   :  +- Project [id#4L]
   :     +- SubqueryAlias dimension
   :        +- View (`dimension`, [id#4L])
   :           +- LogicalRDD [id#4L], false
""" + "\n".join(f"   {'+- ' if number == 0 else '   '}{line}" for number, line in enumerate(BOUND.split("\n")))
"""EXISTS and NOT IN, as Spark prints them: below the condition, one level further in than its input."""


def test_a_shape_may_announce_subqueries_of_conditions_and_only_these() -> None:
    nodes = OF_ROWS | {"Join", SUBQUERY}
    require_announced_plan(explained(WITH_EXISTS), RELATION, nodes, ("dimension",))
    with pytest.raises(InvalidJobError, match="has a subquery"):
        require_announced_plan(explained(WITH_EXISTS), RELATION, OF_ROWS | {"Join"}, ("dimension",))
    for theirs, said in {
        WITH_EXISTS.replace("Project [1 AS 1#14]", "Aggregate [max(id#3L)]"): "has Aggregate",
        WITH_EXISTS.replace("LogicalRDD [id#4L], false", "Relation [id#4L] text"): "under the upstream's name",
        WITH_EXISTS.replace("+- Filter (exists", "+- Project (exists"): "has a subquery",
        WITH_EXISTS.replace("   :  :- Project [1", "   :  :  :- Project [1"): "has a subquery",
    }.items():
        with pytest.raises(InvalidJobError, match=said):
            require_announced_plan(explained(theirs), RELATION, nodes, ("dimension",))


def test_a_shape_may_announce_subqueries_of_values_too() -> None:
    in_select = WITH_EXISTS.replace("+- Filter (exists", "+- Project (scalar-subquery")
    nodes = OF_ROWS | {"Join", SUBQUERY, SUBQUERY_IN_VALUES}
    for plan in (WITH_EXISTS, in_select):
        require_announced_plan(explained(plan), RELATION, nodes, ("dimension",))
    for theirs, said in {
        in_select.replace("LogicalRDD [id#4L], false", "Relation [id#4L] text"): "under the upstream's name",
        in_select.replace("+- Project (scalar-subquery", "+- Join (scalar-subquery"): "has a subquery",
    }.items():
        with pytest.raises(InvalidJobError, match=said):
            require_announced_plan(explained(theirs), RELATION, nodes, ("dimension",))


def two_readings(node: str) -> str:
    """Return a node over two readings of the bound relation."""
    first, *rest = BOUND.split("\n")
    return "\n".join([node, f":- {first}", *(f":  {line}" for line in rest), f"+- {first}", *(f"   {r}" for r in rest)])


def test_only_a_shape_that_announces_it_may_read_the_upstream_several_times() -> None:
    """Each reading is of the bound rows, and any other relation is still refused."""
    joined = two_readings("Join FullOuter, (id#0L = id#5L)")
    require_announced_plan(explained(joined), RELATION, OF_SEVERAL_READINGS)
    require_announced_plan(explained(two_readings("Union false, false")), RELATION, OF_SEVERAL_READINGS)
    first, *rest = BOUND.split("\n")
    beside_values = ["Join Inner", ":- LocalRelation [id#9L]", f"+- {first}", *(f"   {line}" for line in rest)]
    for plan, nodes in (
        (joined, OF_ONE_RELATION),
        (two_readings("Project [id#0L]"), OF_SEVERAL_READINGS),
        (joined.replace("LogicalRDD [id#0L, t#1], false", "Relation [id#0L] parquet", 1), OF_SEVERAL_READINGS),
        (joined.replace(f"(`{RELATION}`, ", "(`another`, ", 1), OF_SEVERAL_READINGS),
        ("\n".join(beside_values), OF_SEVERAL_READINGS),
    ):
        with pytest.raises(InvalidJobError):
            require_announced_plan(explained(plan), RELATION, nodes)


@pytest.mark.parametrize("section", ["== Analyzed Logical Plan ==", "== Optimized Logical Plan =="])
def test_a_second_heading_is_refused(section: str) -> None:
    """Text of a query that gets into the plan with its line ends must not end the part that is checked."""
    plan = below("Project [id#0L]")
    with pytest.raises(InvalidJobError, match="cannot be told"):
        require_announced_plan(explained(plan, columns=f"x: struct<a\n{section}\n"), RELATION, OF_ROWS)


@pytest.mark.parametrize(
    ("sql", "harmless"),
    [
        ("SELECT 'a\n+- Relation' FROM r", "SELECT 'a +- Relation' FROM r"),
        (r"SELECT 'a\n+- Relation' FROM r", "SELECT 'a +- Relation' FROM r"),
        (r"SELECT 'a\u000a\012b\\nc' FROM r", "SELECT 'a  b nc' FROM r"),
        ("""SELECT 'it''s', "a""b" FROM r""", r"""SELECT 'it\'s', 'a"b' FROM r"""),
        (r"SELECT DATE '\u0032020-01-01' FROM r", "SELECT DATE '2020-01-01' FROM r"),
        (r"""SELECT '{"a": "\\"b\\""}'""", r"""SELECT '{"a": "\\"b\\""}'"""),
        ("SELECT r'\\d\nx', `a\nb` FROM r", "SELECT ' d x', `a␤b` FROM r"),
        ("SELECT 'reflect(x)', reflect FROM r", "SELECT 'reflect[x)', reflect FROM r"),
        (
            "SELECT 'a  b', from_json(t, 'a DECIMAL(3,1)')\nFROM r",
            "SELECT 'a  b', from_json(t, 'a DECIMAL(3,1)')\nFROM r",
        ),
    ],
)
def test_only_what_may_look_like_a_plan_is_replaced(sql: str, harmless: str) -> None:
    assert explainable(sql) == harmless


def test_names_of_columns_are_replaced_as_those_of_the_query() -> None:
    field = {"name": "a\nb", "type": {"type": "struct", "fields": [{"name": "c\nd", "type": "string"}]}}
    schema = {"type": "struct", "fields": [{**field, "metadata": {"name": "e\nf"}}]}
    renamed = explainable_schema(schema)["fields"][0]
    assert renamed["name"] == "a␤b"
    assert renamed["type"]["fields"][0]["name"] == "c␤d"
    assert renamed["metadata"] == {"name": "e\nf"}
