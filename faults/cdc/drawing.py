"""Draws a table, and jobs over it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from airflow_backfill_provider.core.job.sql import quote
from faults.cdc.kinds import KEYS, KINDS, LONG, MOOD, KeyColumn, Kind

FILTERS = ("", "n >= 0", "n IS NULL OR n < 50", "n % 3 = 0", "n <> 7 AND n > -90")
"""Conditions that mean the same in both dialects of SQL."""

NAMES = ("p", "a.b", "a`b", 'a"b', "a'b", "A b", "größe", "select ", "a\\b", "a\nb", "`.`", "%s", "__filled_", "_row")
"""What names of columns begin with: quotes of both dialects, what separates paths, and names of the package's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnJob:
    """
    A job over the table.

    :param condition: which rows its view has.
    :param expression: whether the view also has an expression.
    :param columns: the numbers of the payload's columns that its view has.
    """

    name: str
    condition: str
    expression: bool
    columns: tuple[int, ...]
    rate_limit: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnTable:
    """
    A table, and its jobs.

    :param key: the key's columns: ``k0`` and so on.
    :param payload: the types of the payload's columns.
    :param named: what the names of the payload's columns begin with; a number follows.
    :param identity: by what the log identifies an old row: the primary key, the whole row, or another unique index.
    :param long: whether there are values that are stored out of line.
    """

    key: tuple[KeyColumn, ...]
    descending: bool
    payload: tuple[Kind, ...]
    named: str
    identity: str
    partitioned: bool
    long: bool
    truncates: bool
    numbers: int
    jobs: tuple[DrawnJob, ...]

    @property
    def key_names(self) -> list[str]:
        """The key's columns."""
        return [f"k{index}" for index in range(len(self.key))]

    @property
    def names(self) -> list[str]:
        """All columns that a writer sets."""
        return [*self.key_names, "n", *(self.payload_name(index) for index in range(len(self.payload)))]

    def payload_name(self, index: int) -> str:
        """Return a column of the payload, quoted for the database."""
        return '"' + f"{self.named}{index}".replace('"', '""') + '"'

    @property
    def rewrites(self) -> bool:
        """Whether an update must set every long value, because otherwise the log leaves it out."""
        return self.long and self.identity != "full"

    def key_literals(self, number: int) -> list[str]:
        """Return the key that belongs to a number."""
        return [column.literal(number) for column in self.key]

    def where(self, number: int) -> str:
        """Return the condition on a key."""
        pairs = zip(self.key_names, self.key_literals(number), strict=True)
        return " AND ".join(f"{name} = {literal}" for name, literal in pairs)

    def statements(self) -> list[str]:
        """Return the statements that create it."""
        columns = [f"{name} {column.type} NOT NULL" for name, column in zip(self.key_names, self.key, strict=True)]
        columns += ["n integer"]
        columns += [f"{self.payload_name(index)} {kind.type}" for index, kind in enumerate(self.payload)]
        columns += ["extra text DEFAULT 'x'"]
        key = ", ".join(self.key_names)
        made = [f"CREATE TYPE {MOOD} AS ENUM ('sad', 'ok')"]
        if self.identity == "index":
            made += [
                f"CREATE TABLE orders (pk bigserial PRIMARY KEY, {', '.join(columns)})",
                f"CREATE UNIQUE INDEX orders_key ON orders ({key})",
                "ALTER TABLE orders REPLICA IDENTITY USING INDEX orders_key",
            ]
            return made
        by = " PARTITION BY HASH (k0)" if self.partitioned else ""
        made += [f"CREATE TABLE orders ({', '.join(columns)}, PRIMARY KEY ({key})){by}"]
        parts = [f"part{number}" for number in range(3)] if self.partitioned else []
        made += [
            f"CREATE TABLE {part} PARTITION OF orders FOR VALUES WITH (MODULUS 3, REMAINDER {number})"
            for number, part in enumerate(parts)
        ]
        if self.identity == "full":
            made += [f"ALTER TABLE {name} REPLICA IDENTITY FULL" for name in ("orders", *parts)]
        return made

    def query(self, job: DrawnJob) -> str:
        """Return the job's query."""
        payload = [f"{quote(f'{self.named}{index}')} AS p{index}" for index in job.columns]
        columns = [*self.key_names, "n", *payload]
        if job.expression:
            columns.append("n * 2 + 1 AS e")
        where = f" WHERE {job.condition}" if job.condition else ""
        return f"SELECT {', '.join(columns)} FROM upstream{where}"

    def in_database(self, job: DrawnJob, row: str = "") -> str:
        """
        Return an expression for a row of the job's view, as JSON; null for a row that it does not have.

        :param row: the prefix of columns.
        """
        written = [
            *self.written_key(row),
            f"({row}n)::text",
            *(self.payload[index].in_database.format(f"{row}{self.payload_name(index)}") for index in job.columns),
            *([f"({row}n * 2 + 1)::text"] if job.expression else []),
        ]
        condition = job.condition.replace("n ", f"{row}n ") if job.condition else "true"
        return f"CASE WHEN {condition} THEN json_build_array({', '.join(written)})::text END"

    def written_key(self, row: str) -> list[str]:
        """Return expressions for the key."""
        return [
            column.in_database.format(f"{row}{name}") for name, column in zip(self.key_names, self.key, strict=True)
        ]

    def in_view(self, job: DrawnJob) -> list[str]:
        """Return what to read of the view, in Spark's SQL."""
        key = [column.in_spark.format(name) for name, column in zip(self.key_names, self.key, strict=True)]
        payload = [self.payload[index].in_spark.format(f"p{index}") for index in job.columns]
        return [*key, "n", *payload, *(["e"] if job.expression else [])]

    def written_view(self, job: DrawnJob, row: Sequence[Any]) -> list[Any]:
        """Write a row of the view as the database does."""
        width = len(self.key) + 1
        texts = [None if value is None else str(value) for value in row[:width]]
        kinds = [self.payload[index] for index in job.columns]
        payload = [kind.written(value) for kind, value in zip(kinds, row[width:], strict=False)]
        rest = [None if value is None else str(value) for value in row[width + len(kinds) :]]
        return [*texts, *payload, *rest]

    def sort_key(self, written: Sequence[str]) -> tuple[Any, ...]:
        """Return a written key as one that Python orders."""
        return tuple(column.comparable(text) for column, text in zip(self.key, written, strict=False))


def a_table(chance: random.Random) -> DrawnTable:
    """Draw a table with its jobs."""
    identity = chance.choice(["key", "full", "full", "index"])
    long = chance.random() < 0.6
    payload = tuple(chance.sample(KINDS, chance.randint(2, 8)))
    if long:
        payload = (LONG, *payload)
    jobs = tuple(
        DrawnJob(
            name=name,
            condition=chance.choice(FILTERS),
            expression=chance.random() < 0.4,
            columns=tuple(sorted(chance.sample(range(len(payload)), chance.randint(1, len(payload))))),
            rate_limit=chance.choice([30, 100, 250, None]),
        )
        for name in ("first", "second")[: 2 if chance.random() < 0.3 else 1]
    )
    return DrawnTable(
        key=chance.choice(KEYS),
        descending=chance.random() < 0.2,
        payload=payload,
        named=chance.choice(NAMES),
        identity=identity,
        partitioned=identity != "index" and chance.random() < 0.3,
        long=long,
        truncates=chance.random() < 0.3,
        numbers=chance.choice([150, 500, 2500]),
        jobs=jobs,
    )
