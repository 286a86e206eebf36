"""Upstreams of groups: columns of all types whose values repeat, so that rows fall into few groups and move between."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from faults.shapes.case import Case, Column, Gap
from faults.shapes.values import a_value

GROUP_TYPES = (
    *("string", "string", "integer", "long", "short", "byte", "date", "timestamp", "timestamp_ntz", "boolean"),
    *("decimal(5,3)", "decimal(20,0)", "decimal(38,10)", "binary", "double"),
)
"""Types of columns that have few values; texts twice, because they have the most traps."""

VALUE_TYPES = (
    *("integer", "integer", "long", "decimal(12,2)", "decimal(38,10)", "double", "double", "float", "string", "string"),
    *("date", "timestamp", "timestamp_ntz", "boolean", "binary", "short"),
)
"""Types of columns that are aggregated."""

KEY_TYPES = ("long", "long", "long", "string", "integer", "decimal(20,0)", "date")

NAMES = (
    *("shop", "Product", "größe", "order", "value", "count", "rank", "region", "amount", "at", "x", "n", "Sum", "day"),
    *("group", "rows", "over", "_1", "fact", "kind_of", "filter", "window", "first", "name", "Ünit"),
)
"""Names of columns; many are words of SQL, or names of functions."""

CHANGES = (
    *("append", "append", "update", "column", "column", "column", "delete", "return", "move", "swap", "mixture"),
    *("mixture", "rewrite", "empty"),
)
"""Kinds of changes, each a version of the upstream."""

APPENDS = ("append", "append", "append", "rewrite")
"""The same for an upstream whose rows are only appended."""

TEXTS = (
    *("a", "A", "a ", " a", "ä", "a\u0308", "\u00e9", "e\u0301", "ß", "ss", "SS", "", "I", "ı", "i", "İ", "ﬁ", "fi"),
    *("\ufffd", "\U00010000", "null", "NaN", "'", '"', "\\", "%", "a,b", "\x00", "\n", "1", "01", "1.0", "\u200b"),
)
"""Texts that a collation, a trim or a cast may take for one another."""

_FEW_ROWS, _MOST_ROWS = 10, 60


@dataclass(frozen=True, slots=True)
class Table:
    """
    The columns that queries may use.

    :param key: the key's columns.
    :param groups: columns with few values.
    :param values: columns to aggregate.
    """

    key: tuple[Column, ...]
    groups: tuple[Column, ...]
    values: tuple[Column, ...]

    @property
    def columns(self) -> tuple[Column, ...]:
        """All columns."""
        return (*self.key, *self.groups, *self.values)


def a_table(random: random.Random) -> Table:
    """Return the columns of an upstream."""
    names = random.sample(NAMES, 10)
    kinds = [random.choice(KEY_TYPES)]
    if random.random() < 0.25:
        kinds.append(random.choice(("integer", "string")))
    key = [Column(name=("id", "part")[number], type=kind) for number, kind in enumerate(kinds)]
    groups = [Column(name=names.pop(), type=random.choice(GROUP_TYPES)) for _ in range(random.randint(2, 3))]
    # A table without a column that can tell groups apart has no queries.
    groups[0] = replace(groups[0], type="string" if groups[0].type == "double" else groups[0].type)
    values = [Column(name=names.pop(), type=random.choice(VALUE_TYPES)) for _ in range(random.randint(3, 5))]
    values[0] = replace(values[0], type="integer")
    return Table(tuple(key), tuple(groups), tuple(values))


def an_upstream(random: random.Random, table: Table) -> Case:
    """Return an upstream and its history, for jobs that are given later."""
    columns = list(table.columns)
    random.shuffle(columns)
    writer = random.choice(("delta-rs", "spark", "spark"))
    properties = random.choice(({}, {"delta.enableDeletionVectors": "true"})) if writer == "spark" else {}
    return Case(
        rows_seed=random.randrange(10**9),
        writer=writer,
        columns=tuple(columns),
        key=tuple((column.name, False) for column in table.key),
        rows=random.choice((0, *(random.randint(_FEW_ROWS, _MOST_ROWS) for _ in range(9)))),
        files=random.randint(1, 3),
        properties=properties,
        gaps=(_gap(random, fewest=0), *(_gap(random, fewest=1) for _ in range(random.randint(1, 2)))),
        verified=random.random() < 0.4,
    )


def appended(random: random.Random, upstream: Case) -> Case:
    """Return an upstream whose rows are only appended."""
    gaps = (Gap(changes=tuple(random.choice(APPENDS) for _ in gap.changes)) for gap in upstream.gaps)
    return replace(upstream, gaps=tuple(gaps))


def values_of(table: Table) -> Callable[[random.Random, Column], Any]:
    """Return a function that draws the value of a column: of one with few values, mostly one that came before."""
    few = {column.name for column in table.groups}
    pools: dict[str, list[Any]] = {column.name: [] for column in table.columns}

    def draw(random: random.Random, column: Column) -> Any:
        pool = pools[column.name]
        if column.name in few and len(pool) >= 2 and random.random() < 0.92:
            return random.choice(pool)
        value = small_value(random, column.type)
        pool.append(value)
        return value

    return draw


def small_value(random: random.Random, kind: str) -> Any:
    """Return a value whose sums are exact in any order, apart from edges of types now and then."""
    match kind:
        case "float" | "double":
            edges = (float("nan"), float("inf"), float("-inf"), -0.0, 0.0)
            return random.choice(edges) if random.random() < 0.2 else random.randint(-400, 400) / 8
        case "string":
            return random.choice(TEXTS) if random.random() < 0.6 else a_value(random, kind)
        case _ if kind.startswith("decimal") and random.random() < 0.9:
            scale = int(kind.rstrip(")").partition(",")[2])
            return Decimal(random.randint(-900, 900)).scaleb(-min(scale, 2))
        case "byte" | "short" | "integer" | "long" if random.random() < 0.95:
            return random.randint(-9, 20)
        case _:
            return a_value(random, kind)


def _gap(random: random.Random, *, fewest: int) -> Gap:
    return Gap(changes=tuple(random.choice(CHANGES) for _ in range(random.randint(fewest, 2))))


def names_of(columns: Sequence[Column]) -> list[str]:
    """Return the names of columns."""
    return [column.name for column in columns]
