"""
Play the worked example of a join in the concepts, and print its tables.

``python -m docs.join_example --write`` puts them into the page. It does not start Spark. The package's own functions
resolve the query, tell by which hops affected rows are found, and cut the text that runs. SQLite runs that text, over
tables in plain Python. After each epoch, the view is compared with the user's query over the whole tables.
"""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from airflow_backfill_provider.shapes.joined.affected import AffectedStep
from airflow_backfill_provider.shapes.joined.join_query import check_join_query
from airflow_backfill_provider.shapes.several import QueryTable
from docs.generated import main, table

PAGES = (Path(__file__).parent / "concepts" / "examples" / "join.md",)
QUERY = """\
SELECT o.id, c.name, n.title
FROM orders AS o
LEFT JOIN customers AS c ON c.id = o.customer
LEFT JOIN countries AS n ON n.code = c.country"""
TABLES: Mapping[str, QueryTable] = {
    "orders": QueryTable(key=("id",), types={"id": "long", "customer": "long"}),
    "customers": QueryTable(key=("id",), types={"id": "long", "name": "string", "country": "string"}),
    "countries": QueryTable(key=("code",), types={"code": "string", "title": "string"}),
}

Row = tuple[Any, ...]
Change = tuple[str, str, Row | None, Row | None]
"""What a statement did, to a row of which table: the row before and after it; ``None`` where there is none."""

FIRST_ROWS: Mapping[str, Sequence[Row]] = {
    "orders": ((1, 7), (2, 8), (3, 7), (4, 9), (5, 10)),
    "customers": ((7, "Ada", "fr"), (8, "Bob", "de")),
    "countries": (("fr", "France"), ("de", "Germany"), ("es", "Spain")),
}
WINDOWS: Sequence[Sequence[Change]] = (
    (
        ("UPDATE", "customers", (8, "Bob", "de"), (9, "Bob", "de")),
        ("UPDATE", "customers", (9, "Bob", "de"), (10, "Bob", "es")),
    ),
    (
        ("UPDATE", "countries", ("fr", "France"), ("fr", "République")),
        ("UPDATE", "orders", (2, 8), (2, 7)),
        ("DELETE", "orders", (3, 7), None),
    ),
)
"""The changes of each epoch's window."""


class Example:
    """The tables, the view, and the epochs of the job."""

    def __init__(self) -> None:
        self.query = check_join_query(QUERY).resolved(TABLES)
        (self.plan,) = self.query.resolution.affected
        self.rows = {name: list(rows) for name, rows in FIRST_ROWS.items()}
        self.view = self._joined({row[0] for row in self.rows["orders"]})

    def play(self) -> dict[str, str]:
        """Run the epochs and return the blocks of the page."""
        blocks = {
            "join orders": table(("id", "customer"), self.rows["orders"]),
            "join customers": table(("id", "name", "country"), self.rows["customers"]),
            "join countries": table(("code", "title"), self.rows["countries"]),
            "join view": table(("id", "name", "title"), map(_shown, self.view)),
        }
        for number, changes in enumerate(WINDOWS, 1):
            blocks[f"join changes {number}"] = table(
                ("table", "what", "before", "after"), ((name, what, *map(_row, ends)) for what, name, *ends in changes)
            )
            steps, keys = self._follow(changes)
            blocks[f"join hops {number}"] = table(("of", "changed rows give", "rows between give", "together"), steps)
            self._replace(keys)
            blocks[f"join view {number}"] = table(("id", "name", "title"), map(_shown, self.view))
        return blocks

    def _follow(self, changes: Sequence[Change]) -> tuple[list[tuple[str, ...]], set[Any]]:
        """Apply the changes to the tables; return what each role gives, and the keys of the affected leads."""
        images: dict[str, list[Row]] = {}
        for _, name, before, after in changes:
            images.setdefault(name, []).extend(row for row in (before, after) if row is not None)
            self.rows[name] = [row for row in self.rows[name] if row != before] + ([after] if after else [])
        values: dict[str, set[Row]] = {}
        lines: list[tuple[str, ...]] = []
        for step in self.plan.after(frozenset(images)).steps:
            changed = {_values(step, row) for row in images.get(step.relation, ())}
            between = {_values(step, row) for row in self.rows[step.relation] if self._is_met(step, row, values)}
            values[step.role] = changed | between
            lines.append((step.role, _listed(changed), _listed(between), _listed(changed | between)))
        return lines, {key for (key,) in values[self.plan.lead.role]}

    def _is_met(self, step: AffectedStep, row: Row, values: Mapping[str, Collection[Row]]) -> bool:
        gives = {found.role: found.gives for found in self.plan.steps}
        return any(
            all(
                _value(step.relation, row, pair.parent) == value[gives[hop.child].index(pair.column)]
                for pair in hop.pairs
            )
            for hop in step.hops
            for value in values[hop.child]
        )

    def _replace(self, keys: Collection[Any]) -> None:
        """Replace all rows of the affected leads in the view."""
        kept = [row for row in self.view if row[0] not in keys]
        self.view = sorted([*kept, *self._joined(keys)])
        if self.view != self._joined({row[0] for row in self.rows["orders"]}):
            raise AssertionError("the view is not the query over the tables")

    def _joined(self, keys: Collection[Any]) -> list[Row]:
        """Return the rows that the query gives for some orders."""
        bound = {**self.rows, "affected": [row for row in self.rows["orders"] if row[0] in keys]}
        text = self.query.text_over("affected", {"customers": "customers", "countries": "countries"})
        with sqlite3.connect(":memory:") as connection:
            for name, rows in bound.items():
                columns = list(TABLES["orders" if name == "affected" else name].types)
                connection.execute(f"CREATE TABLE {name} ({', '.join(columns)})")
                connection.executemany(f"INSERT INTO {name} VALUES ({', '.join('?' * len(columns))})", rows)
            return sorted(connection.execute(text).fetchall())


def _values(step: AffectedStep, row: Row) -> Row:
    return tuple(_value(step.relation, row, name) for name in step.gives)


def _value(relation: str, row: Row, name: str) -> Any:
    return row[list(TABLES[relation].types).index(name)]


def _shown(row: Row) -> Row:
    return tuple("NULL" if value is None else value for value in row)


def _row(row: Row | None) -> str:
    return "" if row is None else ", ".join(map(str, row))


def _listed(values: Iterable[Row]) -> str:
    return "; ".join(map(_row, sorted(values))) or "nothing"


def make() -> dict[str, str]:
    """Return the blocks of the page."""
    return Example().play()


if __name__ == "__main__":
    sys.exit(main(PAGES, make()))
