"""What a query over several relations may not have, and what to write instead."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_backfill_provider.core.errors import InvalidJobError

OVER_SEVERAL = ", which cannot be kept up to date over several upstreams"
"""What a refusal says of a construct; another shape that shares a check says something else."""

_CHAIN = "make a view of the inner SELECT by a job of its own, and join that view"
_EQUALITY = "join by an equality of columns, such as ON o.customer_id = c.id; further conditions may follow it with AND"
_UNION = "write SELECT … UNION ALL SELECT …"
_SORT = "sort the view when you read it"
_RANK = "number the rows with rank() OVER (PARTITION BY … ORDER BY …), and filter on that with QUALIFY"

_INSTEAD: Mapping[str, str] = {
    "FULL JOIN": "write two LEFT JOINs, one from each side, with UNION ALL between them, and in the second one WHERE … "
    "IS NULL, which leaves the rows without a match",
    "CROSS JOIN": _EQUALITY,
    "NATURAL JOIN": "name the columns: JOIN … USING (…); NATURAL would join by other columns once a table gets one",
    "ASOF JOIN": _EQUALITY,
    "RIGHT JOIN": "swap the sides: begin with the table whose rows are all kept, and write LEFT JOIN",
    "LATERAL": "write a JOIN … ON; for a value of many rows, " + _CHAIN,
    "LATERAL VIEW": "make a view of the rows first, and explode them when you read it",
    "a table function": "join a table instead",
    "VALUES": "keep these rows in a table, and join that",
    "parentheses around joins": "write the joins one after the other: FROM a JOIN b ON … JOIN c ON …",
    "a scalar subquery": "write a LEFT JOIN; for an aggregate, " + _CHAIN,
    "a subquery in another place than WHERE": "write a JOIN, or WHERE EXISTS (…)",
    "EXISTS or IN that is not a condition of its own": "connect it with AND to the other conditions of WHERE; for OR, "
    "write a LEFT JOIN and ask whether a column of it IS NOT NULL",
    "groups, windows or another clause in EXISTS or IN": "keep SELECT, FROM, JOIN and WHERE there; for groups, "
    + _CHAIN,
    "EXISTS or IN inside EXISTS or IN": "write a JOIN in the outer one: EXISTS (SELECT 1 FROM a JOIN b ON … WHERE …)",
    "a grouped subquery in FROM": _CHAIN,
    "UNION without ALL inside FROM": "write SELECT DISTINCT … FROM (SELECT … UNION ALL SELECT …)",
    "a join or a union inside FROM": "write all joins in one FROM; for a union, " + _CHAIN,
    "INTERSECT": "write SELECT DISTINCT … WHERE EXISTS (…), with <=> between the columns",
    "EXCEPT": "write SELECT DISTINCT … WHERE NOT EXISTS (…), with <=> between the columns",
    "UNION before UNION ALL": "write UNION last, which removes duplicates of all branches; or make a view of the "
    "branches that need it by a job of its own",
    "UNION BY NAME": _UNION + " with the columns in the same order",
    "groups in a branch of a union": "group the union: SELECT … FROM (SELECT … UNION ALL SELECT …) GROUP BY …",
    "pipe operators after a union": "write SELECT … FROM (SELECT … UNION ALL SELECT …)",
    "ORDER BY": _SORT,
    "SORT BY": _SORT,
    "LIMIT": _RANK,
    "OFFSET": _RANK,
    "FETCH": _RANK,
}
_OF_JOINS = "write SELECT … FROM a JOIN b ON a.b_id = b.id [WHERE …], or such SELECTs with UNION ALL between them"


_BY_END: Mapping[str, str] = {
    "which is not deterministic,": "remove it, or store its value in an upstream",
    "which is never read,": "remove it",
}


def unsupported(what: str) -> InvalidJobError:
    """Return the error for a construct that no query over several relations may have, with what to write instead."""
    by_end = next((instead for end, instead in _BY_END.items() if what.endswith(end)), _OF_JOINS)
    return refused(what, _INSTEAD.get(what, by_end))


def refused(what: str, instead: str) -> InvalidJobError:
    """
    Return the error for a construct.

    :param what: the construct.
    :param instead: what to write instead.
    """
    return InvalidJobError(f"the query uses {what.removesuffix(',')}{OVER_SEVERAL}; {instead}")


def no_equality(role: str, *, is_block: bool = False) -> InvalidJobError:
    """
    Return the error for a relation without an equality of columns that ties it to the others.

    :param role: the relation's name in the query.
    :param is_block: whether it stands in EXISTS or IN.
    """
    if is_block:
        return refused(
            f"EXISTS or IN over {role} without an equality of columns that ties it to the rows around it",
            f"write one in its WHERE, such as {role}.order_id = o.id; further conditions may follow with AND",
        )
    return refused(
        f"a join of {role} without an equality of columns that ties it to the relations before it",
        "join by plain columns, such as ON o.customer_id = c.id; further conditions may follow with AND",
    )
