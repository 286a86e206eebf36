"""
Random queries over several tables, small tables that change, and two ways to compute a view of them.

SQLite runs the texts that the package cuts from the queries. It knows nothing of epochs, so it is the oracle. The plan
of affected leads is followed in plain Python.
"""

from __future__ import annotations

import random
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from airflow_backfill_provider.shapes.joined.affected import AffectedPlan
from airflow_backfill_provider.shapes.joined.relations import Relation, RelationColumn
from airflow_backfill_provider.shapes.joined.resolved import ResolvedQuery
from airflow_backfill_provider.shapes.joined.texts import Reading

COLUMNS = ("id", "x", "y", "v")
KEYS = {"facts": ("id",), "dims": ("id",), "codes": ("x",), "parts": ("id", "x")}
RELATIONS = tuple(
    Relation(name, tuple(RelationColumn(column, "BIGINT", column not in key) for column in COLUMNS), key)
    for name, key in KEYS.items()
)
TYPES = {"id": range(4), "x": (None, 0, 1, 2), "y": (None, 0, 1, 2), "v": range(4)}

Row = tuple[int | None, ...]
Tables = Mapping[str, Sequence[Row]]
Images = Callable[[Iterable[Row], Iterable[Row]], Iterable[Row]]
"""Returns the images of changed rows that count: of the old ones and the new ones."""


def both_images(old, new):
    return [*old, *new]


def tables(rng: random.Random) -> dict[str, list[Row]]:
    """Return random tables."""
    return {relation.name: _rows(rng, relation, rng.randint(2, 8)) for relation in RELATIONS}


def changed(rng: random.Random, before: Tables) -> dict[str, list[Row]]:
    """Return tables after some changes of one or two of them: rows are inserted, deleted, or get other values."""
    after = {name: list(rows) for name, rows in before.items()}
    for relation in rng.sample(RELATIONS, rng.choice([1, 1, 2])):
        fresh = _rows(rng, relation, rng.randint(0, 3))
        keys = {_key(relation, row) for row in fresh}
        kept = [row for row in before[relation.name] if _key(relation, row) not in keys and rng.random() < 0.8]
        after[relation.name] = kept + fresh
    return after


def _rows(rng, relation, count):
    rows = [tuple(rng.choice(TYPES[column]) for column in COLUMNS) for _ in range(count)]
    rows = [row for row in rows if None not in _key(relation, row)]
    return list({_key(relation, row): row for row in rows}.values())


def _key(relation, row):
    return tuple(row[COLUMNS.index(column)] for column in relation.key)


@dataclass
class Writer:
    """
    Writes a random query.

    :param joins: the number of relations after the first one, at most.
    """

    rng: random.Random
    joins: int = 4
    common: list[str] = field(default_factory=list)
    names: int = 0
    nullable: set[str] = field(default_factory=set)
    used: set[str] = field(default_factory=set)

    def query(self) -> str:
        """Return a join."""
        text = self._select(f"{self._list(4)}")
        return (f"WITH {', '.join(self.common)} " if self.common else "") + text

    def union(self) -> str:
        """Return a union of two or three branches."""
        operator = self.rng.choice(["UNION ALL", "UNION ALL", "UNION"])
        branches = [self._select("{0}.v AS c0, {0}.id, {1}.y AS c1") for _ in range(self.rng.choice([2, 2, 3]))]
        text = f" {operator} ".join(branches)
        return (f"WITH {', '.join(self.common)} " if self.common else "") + text

    def groups(self) -> str:
        """Return a query of groups over a join or a union."""
        group = self.rng.choice(["{0}.x", "{1}.y", "{0}.x + 1"])
        if self.rng.random() < 0.5:
            selected = f"{group} AS g, count(*) AS n, sum({{0}}.v) AS s"
            text = self._select(
                selected if self.rng.random() < 0.7 else selected.split(", ", 1)[1], f" GROUP BY {group}"
            )
        else:
            inner = self._select("{0}.v AS c0, {0}.x AS c1, {1}.y AS c2")
            if self.rng.random() < 0.5:
                inner += " UNION ALL " + self._select("{0}.v AS c0, {0}.x AS c1, {1}.y AS c2")
            text = f"SELECT c1, c2, count(*) AS n, sum(c0) AS s FROM ({inner}) AS u WHERE c0 > 0 GROUP BY c1, c2"
        return (f"WITH {', '.join(self.common)} " if self.common else "") + text

    def _select(self, selected: str, after: str = "") -> str:
        roles, text, where = [self._name()], "", []
        text = f"{self._relation()} AS {roles[0]}"
        lists = list(roles)
        for number in range(min(self.joins, self.rng.choice([1, 1, 2, 2, 3, 4]))):
            role, parent = self._name(), self.rng.choice(lists)
            on = self._on(parent, role)
            match self.rng.choice(
                ["JOIN", "JOIN", "LEFT JOIN", "LEFT JOIN", "LEFT JOIN", ",", "RIGHT JOIN", "EXISTS", "IN", "USING"]
            ):
                case "JOIN" | "LEFT JOIN" as join:
                    text += f" {join} {self._relation()} AS {role} ON {on}"
                    lists.append(role)
                    self.nullable |= {role} if join == "LEFT JOIN" else set()
                # Of a text with both, also in two branches of a union, SQLite 3.40 finds rows of no match.
                case "," if "RIGHT JOIN" not in self.used:
                    self.used.add(",")
                    text += f", {self._relation()} AS {role}"
                    where.append(on)
                    lists.append(role)
                case "RIGHT JOIN" if number == 0 and "," not in self.used:
                    self.used.add("RIGHT JOIN")
                    text += f" RIGHT JOIN {self._relation()} AS {role} ON {on}"
                    lists.append(role)
                    self.nullable.add(roles[0])
                case "USING" if number == 0:
                    text += f" {self.rng.choice(['', 'LEFT '])}JOIN {self._relation()} AS {role} USING (x)"
                    lists.append(role)
                    self.nullable.add(role)
                case "IN":
                    where.append(f"{parent}.{self._column()} IN (SELECT {role}.x FROM {self._relation()} AS {role})")
                case _:
                    inside = f"{self._relation()} AS {role}"
                    if self.rng.random() < 0.4:
                        below = self._name()
                        inside += f" JOIN {self._relation()} AS {below} ON {self._on(role, below)}"
                    denied = self.rng.choice(["", "NOT "])
                    where.append(f"{denied}EXISTS (SELECT 1 FROM {inside} WHERE {on})")
        if self.rng.random() < 0.3:
            where.append(f"{self.rng.choice(lists)}.v <> 2")
        last = self.rng.choice(lists)
        listed = selected.format(roles[0], last)
        return (
            f"SELECT {listed} FROM {text}"
            + (f" WHERE {' AND '.join(where)}" if where else "")
            + after.format(roles[0], last)
        )

    def _list(self, count):
        items = self.rng.sample(["{0}.v AS c0", "{1}.v AS c1", "{0}.id AS i0", "{1}.id", "{1}.x AS x1", "{0}.x"], count)
        return ", ".join(items)

    def _on(self, parent, role):
        operators = ["="] if parent in self.nullable else ["=", "=", "=", "<=>"]
        equal = f"{parent}.{self._column()} {self.rng.choice(operators)} {role}.{self._column()}"
        if self.rng.random() < 0.3:
            equal += f" AND {role}.{self._column()} = {parent}.{self._column()}"
        return equal + self.rng.choice(["", "", "", f" AND {role}.v > {parent}.v", f" AND {role}.v < 3"])

    def _relation(self):
        name = self.rng.choice(list(KEYS))
        match self.rng.choice(["plain"] * 4 + ["nested", "common"]):
            case "nested":
                return f"(SELECT id, x, y, v FROM {name} WHERE v <> 1)"
            case "common":
                common = f"c{len(self.common)}"
                self.common.append(f"{common} AS (SELECT * FROM {name} WHERE v < 3)")
                return common
            case _:
                return name

    def _name(self):
        self.names += 1
        return f"r{self.names}"

    def _column(self):
        return self.rng.choice(["id", "x", "y"])


def run(resolved: ResolvedQuery, bound: Mapping[str, Sequence[Row]], text: str) -> list[dict[str, int | None]]:
    """
    Run a text on SQLite.

    :param bound: the rows of each relation in the text.
    """
    with sqlite3.connect(":memory:") as connection:
        for name, (columns, rows) in bound.items():
            listed = ", ".join(f'"{column}"' for column in columns)
            connection.execute(f'CREATE TABLE "{name}" ({listed})')
            connection.executemany(f'INSERT INTO "{name}" VALUES ({", ".join("?" * len(columns))})', rows)
        text = text.replace("LEFT SEMI JOIN", "JOIN").replace("<=>", "IS").replace("BIGINT", "INTEGER")
        cursor = connection.execute(text)
        names = [found[0] for found in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def name_of(reading: Reading) -> str:
    """Return the name of the relation that the tests bind at a place."""
    return f"{'lead' if reading.leads else 'all'}_{reading.branch}_{reading.relation}"


def bindings(
    resolved: ResolvedQuery, rows: Tables, leads: Sequence[set[Row]] | None = None
) -> dict[str, tuple[Sequence[str], list[Row]]]:
    """
    Return the rows for each place, with the columns alone that the query says to read.

    :param leads: the keys of the leads of each branch to keep; ``None`` for all.
    """
    found = {}
    for number, tree in enumerate(resolved.trees):
        for relation in resolved.relations:
            columns = resolved.columns[relation.name]
            places = [COLUMNS.index(column) for column in columns]
            every = rows[relation.name]
            kept = [row for row in every if leads is None or _key(relation, row) in leads[number]]
            found[f"all_{number}_{relation.name}"] = (columns, [tuple(row[at] for at in places) for row in every])
            if relation.name == tree.lead.relation:
                found[f"lead_{number}_{relation.name}"] = (columns, [tuple(row[at] for at in places) for row in kept])
    return found


def affected(plan: AffectedPlan, before: Tables, after: Tables, images: Images = both_images) -> set[Row]:
    """Return the keys of the affected leads, as a plan says to find them."""
    values: dict[str, set[Row]] = {}
    gives = {step.role: step.gives for step in plan.steps}
    for step in plan.steps:
        old, new = set(before[step.relation]), set(after[step.relation])
        found = {_project(row, step.gives) for row in images(old - new, new - old)}
        for hop in step.hops:
            for row in new:
                if any(_matches(row, value, hop.pairs, gives[hop.child]) for value in values[hop.child]):
                    found.add(_project(row, step.gives))
        values[step.role] = found
    return values[plan.lead.role]


def _project(row, columns):
    return tuple(row[COLUMNS.index(column)] for column in columns)


def _matches(row, value, pairs, gives):
    for pair in pairs:
        own, other = row[COLUMNS.index(pair.parent)], value[gives.index(pair.column)]
        if own != other or (own is None and not pair.null_safe):
            return False
    return True


def by_unit(rows: Iterable[Mapping[str, int | None]], unit: Sequence[str]) -> dict[Row, Counter]:
    """Return the rows of each unit."""
    found: dict[Row, Counter] = defaultdict(Counter)
    for row in rows:
        found[tuple(row[name] for name in unit)][tuple(row.values())] += 1
    return dict(found)
