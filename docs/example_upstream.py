"""The upstream of a worked example: a small Delta table that SQL statements change, one version each."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Row = tuple[Any, ...]

_ORDERS = re.compile(r"\b(TABLE|INTO|UPDATE|FROM|OPTIMIZE) orders\b")


@dataclass(frozen=True)
class Change:
    """A row of the change data feed."""

    version: int
    kind: str
    row: Row

    @property
    def key(self) -> int:
        """The changed row's key."""
        return int(self.row[0])

    @property
    def upserts(self) -> bool:
        """Whether the key has a row afterwards."""
        return self.kind in {"insert", "update_postimage"}


class ExampleUpstream:
    """
    The table ``orders``, at version 1 with its first rows.

    :param spark: the session.
    :param path: the path of the table.
    :param columns: the type of each column by name; the first column is the key.
    :param rows: the first rows.
    """

    def __init__(self, spark: SparkSession, path: str, columns: dict[str, str], rows: Sequence[Row]) -> None:
        self.path = path
        self._spark = spark
        self._columns = list(columns)
        types = ", ".join(f"{name} {kind}" for name, kind in columns.items())
        self.sql(
            f"CREATE TABLE orders ({types}) USING delta TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')",
        )
        self.sql(f"INSERT INTO orders SELECT /*+ COALESCE(1) */ * FROM VALUES {', '.join(map(str, rows))}")

    def sql(self, statement: str) -> DataFrame:
        """Run a statement on the upstream, under the name ``orders``."""
        return self._spark.sql(_ORDERS.sub(f"\\1 delta.`{self.path}`", statement))

    def rows_at(self, version: int) -> list[Row]:
        """Return the rows as of a version, in key order."""
        return sorted(self._row(row) for row in read(self._spark, self.path, versionAsOf=version).collect())

    def feed(self, from_version: int, to_version: int) -> list[Change]:
        """Return the change data feed of a window ``(from_version, to_version]``."""
        frame = read(
            self._spark, self.path, readChangeFeed="true", startingVersion=from_version + 1, endingVersion=to_version
        )
        changes = [Change(row["_commit_version"], row["_change_type"], self._row(row)) for row in frame.collect()]
        return sorted(changes, key=lambda change: (change.version, change.kind != "update_preimage", change.key))

    def _row(self, row: Any) -> Row:
        return tuple(row[name] for name in self._columns)


def read(spark: SparkSession, path: str, **options: int | str) -> DataFrame:
    """Read a Delta table."""
    return spark.read.format("delta").options(**options).load(path)


def statements_block(statements: Sequence[str], first_version: int) -> str:
    """Return statements as SQL, each with the version that it makes."""
    lines = (f"{sql};  -- version {version}\n" for version, sql in enumerate(statements, start=first_version))
    return f"```sql\n{''.join(lines)}```\n"
