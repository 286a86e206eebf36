"""Random histories of all tables that a view of unions reads."""

from __future__ import annotations

from random import Random

from tests.integration.engine.shops import TABLES, Shops


class History:
    """Random changes of the tables that a view reads."""

    def __init__(self, shops: Shops, seed: int) -> None:
        self.shops = shops
        self.random = Random(seed)
        self.fresh = 100

    def change(self) -> None:
        """Change some tables, one to three times each."""
        random = self.random
        for name in random.sample(self.shops.tables, random.randint(1, len(self.shops.tables))):
            for _ in range(random.randint(1, 3)):
                self.shops.change(self._statement(name))

    def _statement(self, name: str) -> str:
        random, key = self.random, TABLES[name][1][0]
        self.fresh += 1
        fresh = f"'f{self.fresh}'" if name == "online" else str(self.fresh)
        some = f"{'substr(code, 2)' if name == 'online' else key} % {random.randint(2, 5)} = {random.randint(0, 2)}"
        one = f"'o{random.randint(0, 9)}'" if name == "online" else str(random.randint(0, 9))
        values = {"name": f"'n{self.fresh}'"} if name == "customers" else {"amount": "amount + 3", "customer": "3"}
        column, value = random.choice([*values.items()])
        return random.choice(
            [
                f"UPDATE {{{name}}} SET {column} = {value} WHERE {some}",
                f"DELETE FROM {{{name}}} WHERE {some} AND pmod(hash({key}), 3) = {random.randint(0, 2)}",
                f"INSERT INTO {{{name}}} SELECT {fresh}, {', '.join(_new_values(name, random))}",
                f"UPDATE {{{name}}} SET {key} = {fresh} WHERE {key} = {one}",
                f"INSERT OVERWRITE {{{name}}} SELECT * FROM {{{name}}} WHERE NOT ({some})",
            ]
        )


def _new_values(name: str, random: Random) -> list[str]:
    return ["'new'"] if name == "customers" else [random.choice(["NULL", "1", "4"]), str(random.randint(0, 12))]
