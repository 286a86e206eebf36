"""Queries of groups that must be refused, each with what the refusal has to name."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from faults.groups.expressions import Expressions, kind_of, named
from faults.groups.tables import Table, names_of
from faults.groups.words import SPARK
from faults.shapes.case import Column


@dataclass(frozen=True, slots=True)
class Refused:
    """
    A query, and what its refusal names.

    :param query: the query.
    :param names: what the refusal has to name.
    """

    query: str
    names: str


def a_refused_query(random: random.Random, table: Table) -> Refused:
    """Return a query that no job can keep up to date, or whose result is a matter of chance."""
    over = Expressions(random, table.columns, names_of(table.key), SPARK)
    group, value = (over.column(random.choice(columns)).text for columns in (table.groups, table.values))
    other = over.column(random.choice(table.groups)).text
    grouped = f"SELECT {group} AS g, count(*) AS n FROM upstream GROUP BY"
    found = [
        Refused(f"{grouped} ROLLUP({group})", "ROLLUP"),
        Refused(f"{grouped} {group} WITH CUBE", "CUBE"),
        Refused(f"{grouped} GROUPING SETS (({group}), ())", "GROUPING SETS"),
        Refused(f"{grouped} {group} LIMIT 3", "LIMIT"),
        Refused(f"{grouped} {group} ORDER BY n", "ORDER BY"),
        Refused(f"SELECT {group} AS g, first({value}) AS f FROM upstream GROUP BY 1", "first"),
        Refused(f"SELECT {group} AS g, any_value({value}) AS f FROM upstream GROUP BY 1", "any_value"),
        Refused(f"SELECT {group} AS g, collect_list({value}) AS f FROM upstream GROUP BY 1", "collect_list"),
        Refused(f"SELECT {group} AS g, max_by({value}, {other}) AS f FROM upstream GROUP BY 1", "max_by"),
        Refused(f"SELECT {group} AS g, mode({value}) AS f FROM upstream GROUP BY 1", "mode"),
        Refused(f"SELECT {group} AS g, sum(rand()) AS f FROM upstream GROUP BY 1", "rand"),
        Refused(f"SELECT *, rank() OVER (ORDER BY {value}) AS r FROM upstream", "PARTITION BY"),
        Refused(
            f"SELECT * FROM upstream QUALIFY row_number() OVER (PARTITION BY {group} ORDER BY {value}) = 1",
            "row_number",
        ),
        Refused(
            f"SELECT *, lag({value}) OVER (PARTITION BY {group} ORDER BY {value}) AS l FROM upstream",
            "lag",
        ),
        Refused(
            f"SELECT {group} AS g, max({value}) AS m FROM upstream GROUP BY 1 HAVING max({value}) = "
            f"(SELECT max({value}) FROM upstream)",
            "subqueries",
        ),
        Refused("SELECT count(*) AS n FROM upstream HAVING count(*) > 1", "HAVING without GROUP BY"),
        *_of_columns(random, [*table.groups, *table.values]),
    ]
    if group.split(".")[-1].strip("`") != other.split(".")[-1].strip("`"):
        windows = [f"count(*) OVER (PARTITION BY {one}) AS n_{i}" for i, one in enumerate((group, other))]
        found.append(Refused(f"SELECT *, {', '.join(windows)} FROM upstream", "nothing in common"))
    return random.choice(found)


def _of_columns(random: random.Random, columns: Sequence[Column]) -> list[Refused]:
    """Return groups by columns that cannot tell groups apart."""
    found = []
    for column in columns:
        name, kind = named(random, column.name), kind_of(column)
        if kind == "floating":
            found.append(Refused(f"SELECT {name} AS g, count(*) AS n FROM upstream GROUP BY {name}", "`g`"))
        if kind == "text":
            collated = f"{name} COLLATE {random.choice(('UTF8_LCASE', 'UNICODE_CI', 'UNICODE_AI'))}"
            found.append(Refused(f"SELECT {collated} AS g, count(*) AS n FROM upstream GROUP BY 1", "collation"))
            found.append(Refused(f"SELECT DISTINCT {collated} AS g FROM upstream", "collation"))
            found.append(Refused(f"SELECT max({collated}) AS g FROM upstream", "collation"))
    return found
