"""Row-level queries at random: columns, expressions, stars, conditions, and ways to write them."""

from __future__ import annotations

import random
from collections.abc import Sequence

from airflow_backfill_provider.core.job.sql import quote
from faults.shapes import names
from faults.shapes.case import Column
from faults.shapes.expressions import BY_TYPE, CONDITIONS, built_in, kind_of

_RELATION = "upstream"

_SHAPES = (
    ("{select} FROM upstream{alias}{where}", 40),
    ("select {items}\n-- FROM nowhere\nfrom upstream{alias}{where}", 2),
    ("{select} /* all of it */ FROM `upstream`{alias}{where};", 2),
    ("SELECT ALL {items} FROM Upstream{alias}{where}", 1),
    ("WITH upstream AS (SELECT * FROM upstream) {select} FROM upstream{alias}{where}", 3),
    ("WITH w AS ({select} FROM upstream{alias}{where}), v AS (SELECT * FROM w /* all */) SELECT v.* FROM v", 2),
    ("FROM upstream{alias} |> {select} |> WHERE 1 < 2", 3),
    ("SELECT * FROM upstream{alias}{where} |> SELECT * |> EXTEND 1 AS unused |> DROP unused", 1),
    ("SELECT * FROM ({select} FROM upstream{alias}{where}) AS t", 2),
)


def a_query(random: random.Random, columns: Sequence[Column], key: Sequence[str], *, star: bool) -> str:
    """
    Return a query.

    :param columns: the upstream's columns that the expected rows have.
    :param key: the key columns.
    :param star: whether it may select ``*``.
    """
    alias = random.choice(("", "", " AS u", " `my orders`"))
    prefix = "" if random.random() < 0.6 else {"": "upstream."}.get(alias, alias.replace(" AS ", "").strip() + ".")
    items = [_star(random, columns, prefix)] if star and random.random() < 0.25 else []
    taken = {column.name.lower() for column in columns} if items else set()
    if not items:
        kept = [column for column in columns if column.name in key or random.random() < 0.5]
        # If a key column is left out, the view keeps a hidden one.
        kept = [column for column in kept if column.name not in key or random.random() < 0.8]
        items = [_plain(random, column, prefix, taken) for column in kept]
    for _ in range(random.randint(0 if items else 1, 4)):
        expression = _expression(random, columns, prefix)
        items.append(f"{expression} AS {quote(_new_name(random, taken))}")
    where = f" WHERE {_condition(random, columns, prefix)}" if random.random() < 0.5 else ""
    listed = ", ".join(items)
    shapes, weights = zip(*_SHAPES, strict=True)
    shape: str = random.choices(shapes, weights)[0]
    return (
        shape.replace("{select}", "SELECT {items}")
        .replace("{alias}", alias)
        .replace("{where}", where)
        .replace("{items}", listed)
    )


def _star(random: random.Random, columns: Sequence[Column], prefix: str) -> str:
    left_out = random.choice(columns)
    return random.choice(("*", "*", f"{prefix}*", f"* EXCEPT ({quote(left_out.name)})"))


def _plain(random: random.Random, column: Column, prefix: str, taken: set[str]) -> str:
    written = _reference(random, column, prefix)
    refused = set(column.name) & set(" ,;{}()\n\t=")
    if column.name.lower() in taken or random.random() < (0.9 if refused else 0.25):
        return f"{written} AS {quote(_new_name(random, taken))}"
    taken.add(column.name.lower())
    return written


def _new_name(random: random.Random, taken: set[str]) -> str:
    pool = random.choices((names.PLAIN, names.OURS, names.RESERVED, names.UNICODE, names.QUOTED), (8, 3, 2, 2, 2))[0]
    name = random.choice(pool)
    while name.lower() in taken:
        name = f"{name[:190]}_{len(taken)}"
    taken.add(name.lower())
    return name


def _reference(random: random.Random, column: Column, prefix: str) -> str:
    name = column.name
    if name.isascii() and random.random() < 0.15:
        name = name.swapcase()
    bare = name.isascii() and name.isidentifier() and name.lower() not in names.RESERVED and random.random() < 0.5
    return prefix + (name if bare else quote(name))


def _expression(random: random.Random, columns: Sequence[Column], prefix: str) -> str:
    column = random.choice(columns)
    if random.random() < 0.35:
        plain = [one for one in columns if "<" not in one.type and one.type != "variant"]
        written = _reference(random, random.choice(plain), prefix)
        return random.choice(built_in()).replace("{empty}", f"left(coalesce(CAST({written} AS STRING), ''), 0)")
    written = _reference(random, column, prefix)
    return random.choice(BY_TYPE[kind_of(column.type)]).replace("{c}", written)


def _condition(random: random.Random, columns: Sequence[Column], prefix: str) -> str:
    possible = [column for column in columns if kind_of(column.type) in CONDITIONS]
    column = random.choice(possible)
    found = random.choice(CONDITIONS[kind_of(column.type)]).replace("{c}", _reference(random, column, prefix))
    return f"{found} AND 1 < 2" if " OR " not in found and random.random() < 0.2 else found
