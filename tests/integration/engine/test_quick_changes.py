"""Changes by deltalake leave the rows, and a change data feed of them, that Spark leaves."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.engine.lakehouse import Lakehouse
from tests.integration.engine.quick_changes import is_changed
from tests.integration.engine.star_shop import StarShop

pytestmark = [pytest.mark.spark, pytest.mark.exhaustive]

COLUMNS = "id BIGINT NOT NULL, name STRING, price INT, at TIMESTAMP_NTZ"
ROWS = "INSERT INTO {%s} SELECT id, concat('n', id %% 4), id %% 5, NULL FROM range(3, 20)"
TABLES = ("by_spark", "by_deltalake")
# Each row that is updated gets other values: deltalake leaves a row that stays as it is out of the feed.
CHANGES = (
    "INSERT INTO {%s} VALUES (100, 'it\\'s', -3, NULL), (101, NULL, NULL, NULL)",
    "UPDATE {%s} SET price = 1 - price * 2, name = upper(name) WHERE name IN ('n1', 'n2') AND price <> 4",
    "UPDATE {%s} SET id = id + 1000 WHERE id BETWEEN 5 AND 7 OR price IS NULL",
    "UPDATE {%s} SET price = price + 3, name = CASE WHEN name = 'n3' THEN 'x' ELSE name END WHERE NOT id %% 2 = 0 "
    "AND price IS NOT NULL",
    "DELETE FROM {%s} WHERE name NOT IN ('x', 'N1') OR price %% 3 = -1",
    "DELETE FROM {%s}",
)


@pytest.fixture
def tables(lakehouse: Lakehouse) -> StarShop:
    found = StarShop.of(lakehouse)
    for name in TABLES:
        found.make_table(name, COLUMNS)
    found.change_by_spark(ROWS % "by_spark")
    found.change(ROWS % "by_deltalake")
    return found


def feed(tables: StarShop, name: str, version: int) -> list[tuple[Any, ...]]:
    """Return the changes of a version, and of which kind each is."""
    options = {"readChangeFeed": "true", "startingVersion": version, "endingVersion": version}
    changes = tables.spark.read.format("delta").options(**options).load(tables.location(name))
    return sorted(map(tuple, changes.selectExpr("to_json(struct(id, name, price, at))", "_change_type").collect()))


def test_both_leave_the_same_rows_and_the_same_changes(tables: StarShop) -> None:
    rows = [sorted(map(repr, tables.spark.table(tables.table(name)).collect())) for name in TABLES]
    assert rows[0] == rows[1]
    for version, statement in enumerate(CHANGES, 2):
        tables.change_by_spark(statement % "by_spark")
        assert is_changed(statement.replace("{%s}", "t").replace("%%", "%"), tables.location("by_deltalake"))
        found, expected = (feed(tables, name, version) for name in TABLES)
        assert found == expected, statement
        assert expected
