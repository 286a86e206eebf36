"""Queries of groups from a grammar, each of which has to be accepted."""

from __future__ import annotations

import random
from collections.abc import Callable

from faults.groups.drawing import Drawing
from faults.groups.expressions import Expressions, named
from faults.groups.tables import Table, names_of
from faults.groups.words import SPARK, Words
from faults.shapes.case import Column


def a_query(random: random.Random, table: Table, words: Words = SPARK) -> str:
    """
    Return a query.

    :param words: the functions and operators.
    """
    text = random.choice(_QUERIES)(Drawing(random, table, words))
    if random.random() < 0.2:
        for word in ("GROUP BY", "PARTITION BY", "SELECT", "FROM", "OVER", "HAVING", "QUALIFY", "WHERE"):
            text = text.replace(f"{word} ", f"{word.lower()}\n")
    return text


def _grouped(draw: Drawing) -> str:
    """Aggregates of groups, whose keys may be missing in the view, be numbers, or be ALL."""
    keys = draw.keys(3)
    selected, grouped = draw.items(keys)
    aggregates = draw.aggregates(draw.over, draw.table.values, 4)
    how = draw.random.randrange(6)
    if how == 0:
        by = "ALL"
    elif how == 1:
        by = ", ".join(str(number) for number in range(1, len(keys) + 1))
    elif how == 2:
        # Some keys are not selected, and are hidden columns of the view.
        selected, grouped = selected[: len(keys) - 1], [key.text for key in keys]
        by = ", ".join(grouped)
    else:
        by = ", ".join(grouped)
    items = [*selected, *aggregates]
    if how > 2:
        draw.random.shuffle(items)
    return f"SELECT {', '.join(items)} FROM {draw.source}{draw.where()} GROUP BY {by}{_having(draw)}"


def _having(draw: Drawing) -> str:
    if draw.random.random() < 0.65:
        return ""
    call = draw.over.call([draw.table.values[0]])
    return " HAVING " + draw.random.choice(
        ("count(*) > 1", "count(*) % 2 = 0", f"{call} IS NOT NULL", f"NOT ({call} IS NULL) AND count(*) < 9")
    )


def _global(draw: Drawing) -> str:
    """Aggregates of all rows, which have one row over nothing, too."""
    return f"SELECT {', '.join(draw.aggregates(draw.over, draw.table.values, 4))} FROM {draw.source}{draw.where()}"


def _distinct(draw: Drawing) -> str:
    selected, _ = draw.items(draw.keys(3))
    return f"SELECT DISTINCT {', '.join(selected)} FROM {draw.source}{draw.where()}"


def _windows(draw: Drawing) -> str:
    """Windows that all divide by something in common; some columns that they divide by are hidden."""
    partitions = draw.partitions()
    columns = draw.table.values
    windows = [
        f"{draw.over.window(draw.random.choice(partitions), columns)} AS {draw.alias('win')}"
        for _ in range(draw.random.randint(1, 3))
    ]
    items = (
        ["*"] if draw.random.random() < 0.3 else [draw.over.column(one).text for one in draw.sample(draw.table.columns)]
    )
    qualify = ""
    if draw.random.random() < 0.4:
        qualify = f" QUALIFY {draw.over.rank(draw.random.choice(partitions), columns)} <= {draw.random.randint(1, 3)}"
    return f"SELECT {', '.join([*items, *windows])} FROM {draw.source}{draw.where()}{qualify}"


def _named_window(draw: Drawing) -> str:
    partition = draw.partitions()[0]
    column = draw.over.column(draw.random.choice(draw.table.values)).text
    items = [draw.over.column(one).text for one in draw.table.key]
    return (
        f"SELECT {', '.join(items)}, count(*) OVER w AS win_1, max({column}) OVER w AS win_2, lag({column}) OVER w AS "
        f"win_3 FROM {draw.source}{draw.where()} WINDOW w AS (PARTITION BY {partition} ORDER BY {column}, "
        f"{draw.over.key()})"
    )


def _latest(draw: Drawing) -> str:
    """The first rows of each group, by QUALIFY."""
    rank = draw.over.rank(draw.partitions()[0], draw.table.values)
    return f"SELECT * FROM {draw.source}{draw.where()} QUALIFY {rank} <= {draw.random.randint(1, 3)}"


def _top(draw: Drawing) -> str:
    """The first rows of each group, by a filter in an outer step."""
    rank = draw.over.rank(draw.partitions()[0], draw.table.values)
    number = draw.alias("place")
    inner = f"SELECT *, {rank} AS {number} FROM {draw.source}{draw.where()}"
    chosen = draw.sample(draw.table.columns)
    names = ", ".join(named(draw.random, one.name, "ranked") for one in chosen)
    filtered = f"{number} <= {draw.random.randint(1, 3)}"
    if draw.random.random() < 0.5:
        return f"WITH ranked AS ({inner}) SELECT {names} FROM ranked WHERE {filtered}"
    return f"SELECT {names}, {number} FROM ({inner}) AS ranked WHERE {filtered}"


def _aggregates_of_rows(draw: Drawing) -> str:
    """Groups over a step of rows that computes what is grouped by."""
    key, value = draw.keys(1)[0], draw.random.choice(draw.table.values)
    inner = f"SELECT {key.text} AS bucket, {draw.over.column(value).text} AS held FROM {draw.source}{draw.where()}"
    over = Expressions(draw.random, [Column(name="held", type=value.type)], ["held"], draw.over.words)
    selected = ["bucket"] if draw.random.random() < 0.7 else []
    aggregates = [
        f"{draw.random.choice(('count(held)', 'max(held)', 'count(*)', 'count(DISTINCT held)'))} AS {draw.alias('agg')}"
        for _ in range(draw.random.randint(1, 3))
    ]
    items = ", ".join([*selected, *aggregates])
    group = f"GROUP BY bucket{' HAVING count(*) > 1' if draw.random.random() < 0.3 else ''}"
    if draw.random.random() < 0.5:
        return f"WITH made AS ({inner}) SELECT {items} FROM made{draw.where(over)} {group}"
    return f"SELECT {items} FROM ({inner}) made{draw.where(over)} {group}"


def _groups_of_groups(draw: Drawing) -> str:
    """Groups of groups: the outer ones divide by a part of what the inner ones divide by."""
    first, second = draw.random.sample(draw.table.groups, 2)
    keys = [draw.over.to_group_by(first), draw.over.to_group_by(second)]
    total = draw.over.call([draw.table.values[0]])
    inner = (
        f"SELECT {keys[0].text} AS outer_key, {keys[1].text} AS inner_key, count(*) AS many, {total} AS total "
        f"FROM {draw.source}{draw.where()} GROUP BY {keys[0].text}, {keys[1].text}"
    )
    match draw.random.randrange(3):
        case 0:
            return f"SELECT outer_key, count(*) AS kinds, sum(many) AS many FROM ({inner}) GROUP BY outer_key"
        case 1:
            return (
                "SELECT outer_key, inner_key, many, rank() OVER (PARTITION BY outer_key ORDER BY many DESC) AS place "
                f"FROM ({inner}) AS inner_ones"
            )
        case _:
            return (
                f"WITH inner_ones AS ({inner}) SELECT * FROM inner_ones "
                "QUALIFY row_number() OVER (PARTITION BY outer_key ORDER BY many DESC, inner_key) <= 2"
            )


def _groups_of_windows(draw: Drawing) -> str:
    """Groups over a step with a window that divides by the same."""
    key = draw.keys(1)[0]
    window = draw.over.window(key.text, draw.table.values)
    inner = f"SELECT {key.text} AS bucket, {window} AS held FROM {draw.source}{draw.where()}"
    return f"SELECT bucket, count(held) AS many, count(DISTINCT held) AS kinds FROM ({inner}) GROUP BY bucket"


def _ranked_groups(draw: Drawing) -> str:
    """Windows over groups in one step, or DISTINCT over groups or windows, which all divide by one expression."""
    first, second = draw.random.sample(draw.table.groups, 2)
    key, other = draw.over.to_group_by(first).text, draw.over.to_group_by(second).text
    total = draw.over.call([draw.table.values[0]])
    match draw.random.randrange(4):
        case 0:
            return (
                f"SELECT {key} AS key_1, {other} AS key_2, {total} AS total, "
                f"rank() OVER (PARTITION BY {key} ORDER BY count(*) DESC) AS place FROM {draw.source}{draw.where()} "
                f"GROUP BY {key}, {other}"
            )
        case 1:
            return (
                f"SELECT DISTINCT {key} AS key_1, count(*) OVER (PARTITION BY {key}) AS many "
                f"FROM {draw.source}{draw.where()}"
            )
        case 2:
            return (
                f"SELECT DISTINCT {key} AS key_1, count(*) AS many FROM {draw.source}{draw.where()} "
                f"GROUP BY {key}, {other}"
            )
        case _:
            return (
                f"SELECT {other} AS key_2, count(*) AS many, max(count(*)) OVER (PARTITION BY {key}) AS most "
                f"FROM {draw.source}{draw.where()} GROUP BY {other}, {key} HAVING count(*) > 1"
            )


def _renamed(draw: Drawing) -> str:
    """Steps that give columns the names of others, or drop what later ones divide by."""
    one, other = draw.random.sample(draw.table.groups, 2)
    if other.type == "double":
        # The view's units are its values.
        one, other = (other, one) if one.type != "double" else (one, draw.table.groups[0])
    first, second = (named(draw.random, column.name) for column in (one, other))
    value, key = named(draw.random, draw.table.values[0].name), draw.random.choice(draw.table.key).name
    inner = f"SELECT {first} AS {second}, {second} AS {first}, {value}, {key} FROM upstream{draw.where()}"
    if draw.relation == "u":
        inner = inner.replace("FROM upstream", "FROM upstream u")
    match draw.random.randrange(4):
        case 0:
            return f"SELECT {first}, max({value}) AS most FROM ({inner}) GROUP BY {first}"
        case 1:
            return f"SELECT count(*) AS many, max({second}) AS most FROM ({inner}) made GROUP BY made.{first}"
        case 2:
            return (
                f"WITH a AS ({inner}), b AS (SELECT a.{second} AS held, a.{first} AS kept, {value} AS v FROM a) "
                "SELECT kept, count(held) AS many, sum(v) AS total FROM b GROUP BY kept HAVING count(*) > 1"
            )
        case _:
            return (
                f"WITH a AS ({inner}), b AS (SELECT {second} AS held, {first} AS kept, count(*) AS many FROM a "
                f"GROUP BY {first}, {second}) SELECT held, many, sum(many) OVER (PARTITION BY kept) AS total FROM b"
            )


def _guarded(draw: Drawing) -> str:
    """Groups by an expression that fails on rows that a condition leaves out."""
    number = draw.over.column(draw.table.values[0]).text
    key, guard = draw.random.choice((("12 DIV {c}", "{c} <> 0"), ("12 / {c} > 1", "{c} IS NOT NULL AND {c} <> 0")))
    key, guard = key.format(c=number), guard.format(c=number)
    aggregates = ", ".join(draw.aggregates(draw.over, draw.table.values))
    if draw.random.random() < 0.5:
        return f"SELECT {key} AS key_0, {aggregates} FROM {draw.source} WHERE {guard} GROUP BY {key}"
    return (
        f"SELECT *, rank() OVER (PARTITION BY {key} ORDER BY {draw.over.key()}) AS win_1 FROM {draw.source} "
        f"WHERE {guard}"
    )


def _pipes(draw: Drawing) -> str:
    """Pipe operators; what they group by are columns, or expressions with an alias."""
    draw.over = Expressions(draw.random, draw.table.columns, names_of(draw.table.key), draw.over.words)
    where = f" |> WHERE {draw.over.condition()}" if draw.random.random() < 0.4 else ""
    columns = draw.random.sample(draw.table.groups, draw.random.randint(1, 2))
    keys = [draw.over.to_group_by(column) for column in columns]
    aliases = [draw.alias("key") for _ in keys]
    grouped = ", ".join(f"{key.text} AS {alias}" for key, alias in zip(keys, aliases, strict=True))
    aggregates = draw.aggregates(draw.over, draw.table.values)
    text = f"FROM upstream{where} |> AGGREGATE count(*) AS many, {', '.join(aggregates)} GROUP BY {grouped}"
    match draw.random.randrange(4):
        case 0:
            return f"{text} |> WHERE many > 1"
        case 1:
            rank = f"rank() OVER (PARTITION BY {aliases[0]} ORDER BY many DESC)"
            return f"{text} |> EXTEND {rank} AS place |> WHERE place = 1"
        case 2:
            return f"{text} |> AGGREGATE sum(many) AS total, count(*) AS kinds GROUP BY {aliases[-1]}"
        case _:
            return text


_QUERIES: tuple[Callable[[Drawing], str], ...] = (
    *(_grouped, _grouped, _grouped, _grouped, _windows, _windows, _latest, _top, _distinct, _global),
    *(_aggregates_of_rows, _groups_of_groups, _groups_of_windows, _named_window, _pipes, _pipes, _guarded),
    *(_ranked_groups, _ranked_groups, _renamed, _renamed),
)
