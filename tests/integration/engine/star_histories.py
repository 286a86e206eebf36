"""Random changes of the tables of a star, of several tables in each window."""

from __future__ import annotations

import random
from collections.abc import Sequence

from tests.integration.engine.star_shop import TABLES, StarShop

COUNTRIES = ("fr", "de", "es")


class StarHistory:
    """
    Changes tables at random, and keeps each key once.

    :param shop: the tables, which are made here.
    :param tables: the names of those that change.
    """

    def __init__(self, shop: StarShop, tables: Sequence[str], seed: int) -> None:
        shop.fill(*tables)
        self._shop = shop
        self._tables = tables
        self._random = random.Random(seed)
        self._keys: dict[str, set[tuple[object, ...]]] = {
            name: {
                tuple(row)
                for row in shop.spark.sql(f"SELECT {', '.join(_KEYS[name])} FROM {shop.table(name)}").collect()
            }
            for name in tables
        }

    def change(self) -> None:
        """Change some tables, one of them twice now and then."""
        for name in self._random.choices(self._tables, k=self._random.choice([1, 2, 3])):
            self._random.choice([self._write, self._write, self._delete, self._add])(name)

    def _add(self, name: str) -> None:
        self._insert(name, self._random.choice([1, 3]))

    def _insert(self, name: str, most: int) -> None:
        fresh = {key for key in (self._key(name) for _ in range(most)) if key not in self._keys[name]}
        if fresh:
            self._keys[name] |= fresh
            self._run(f"INSERT INTO {{{name}}} VALUES {', '.join(self._row(name, key) for key in sorted(fresh))}")

    def _write(self, name: str) -> None:
        """Give rows other values, or one row another key."""
        if not self._keys[name]:
            return
        key, other = self._random.choice(sorted(self._keys[name])), self._key(name)
        if self._random.random() < 0.3 and other not in self._keys[name]:
            self._keys[name] = self._keys[name] - {key} | {other}
            self._run(f"UPDATE {{{name}}} SET {self._where(name, other, ', ')} WHERE {self._where(name, key)}")
        else:
            column, values = self._random.choice(_VALUES[name])
            condition = self._random.choice([self._where(name, key), f"hash({_KEYS[name][0]}) % 3 = 0"])
            self._run(f"UPDATE {{{name}}} SET {column} = {self._random.choice(values)} WHERE {condition}")

    def _delete(self, name: str) -> None:
        if self._keys[name]:
            key = self._random.choice(sorted(self._keys[name]))
            self._keys[name].discard(key)
            self._run(f"DELETE FROM {{{name}}} WHERE {self._where(name, key)}")

    def _key(self, name: str) -> tuple[object, ...]:
        return tuple(map(self._random.choice, _OF_KEYS[name]))

    def _row(self, name: str, key: tuple[object, ...]) -> str:
        values = (self._random.choice(values) for _, values in _VALUES[name])
        return f"({', '.join([*map(_sql, key), *values])})"

    def _where(self, name: str, key: tuple[object, ...], between: str = " AND ") -> str:
        return between.join(f"{column} = {_sql(value)}" for column, value in zip(_KEYS[name], key, strict=True))

    def _run(self, statement: str) -> None:
        self._shop.change_by_spark(statement)


def _sql(value: object) -> str:
    return f"'{value}'" if isinstance(value, str) else str(value)


_NUMBERS = (*map(str, range(6)), "NULL")
_KEYS = {name: tuple(key) for name, (_, key) in TABLES.items()}
_OF_KEYS: dict[str, Sequence[Sequence[object]]] = {
    "orders": (range(45),),
    "customers": (range(7),),
    "countries": (COUNTRIES,),
    "lines": (range(25), range(4)),
}
"""The values that the columns of each key may have."""

_VALUES: dict[str, Sequence[tuple[str, Sequence[str]]]] = {
    "orders": (("customer", _NUMBERS), ("parent", _NUMBERS), ("amount", _NUMBERS)),
    "customers": (("name", ("'ann'", "'bob'")), ("country", ("'fr'", "'de'", "NULL"))),
    "countries": (("title", ("'one'", "'two'", "NULL")),),
    "lines": (("product", ("'p'", "'q'")), ("price", _NUMBERS)),
}
"""The other columns of each table, with the values that they may have."""
