"""The columns that identify rows and units, and which of them a query does not select."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_backfill_provider.shapes.joined.relations import RelationColumn
from tests.unit.shapes.joined.shop import relation, resolved

FAN_OUT = "FROM orders o LEFT JOIN lines l ON l.order_id = o.id LEFT JOIN products p ON p.id = l.product"


@pytest.mark.parametrize(
    ("text", "unit", "row", "hidden"),
    [
        # A lookup adds no row, so the lead's key is enough.
        ("SELECT o.id, c.name FROM orders o JOIN customers c ON c.id = o.customer_id", ("id",), ("id",), ()),
        (
            "SELECT o.day, c.id FROM orders o JOIN customers c ON c.id = o.customer_id",
            ("__key_id",),
            ("__key_id",),
            ("__key_id",),
        ),
        # The key of what fans out tells the rows of an order apart.
        (f"SELECT o.id, l.number AS n, l.order_id, p.name {FAN_OUT}", ("id",), ("id", "order_id", "n"), ()),
        (
            f"SELECT o.id AS o, l.number {FAN_OUT}",
            ("o",),
            ("o", "__key_l_order_id", "number"),
            ("__key_l_order_id",),
        ),
        # A semi join and an anti join give no rows.
        ("SELECT o.id FROM orders o LEFT SEMI JOIN lines l ON l.order_id = o.id", ("id",), ("id",), ()),
        # The merged column of USING has the lead's value.
        (
            "SELECT order_id, l.number, r.id FROM lines l JOIN returns r USING (order_id)",
            ("order_id", "number"),
            ("order_id", "number", "id"),
            (),
        ),
        # A column of two names; a star; steps before and after.
        (
            "SELECT o.id AS a, o.id AS b, c.name FROM orders o JOIN customers c ON c.id = o.customer_id",
            ("a",),
            ("a",),
            (),
        ),
        ("SELECT o.*, c.name FROM orders o JOIN customers c ON c.id = o.customer_id", ("id",), ("id",), ()),
        (
            "SELECT name FROM (SELECT o.id AS k, c.name FROM orders o JOIN customers c ON c.id = o.customer_id)",
            ("__key_id",),
            ("__key_id",),
            ("__key_id",),
        ),
        (
            "WITH o AS (SELECT id AS k, customer_id FROM orders) SELECT k, c.name FROM o JOIN customers c ON c.id = "
            "o.customer_id",
            ("k",),
            ("k",),
            (),
        ),
        # A name that is taken.
        (
            "SELECT o.day AS __key_id, c.name FROM orders o JOIN customers c ON c.id = o.customer_id",
            ("___key_id",),
            ("___key_id",),
            ("___key_id",),
        ),
        # A union has the branch, too; a key that all branches have in one place is held there.
        (
            "SELECT id, day FROM orders UNION ALL SELECT id, day FROM returns",
            ("__branch", "id"),
            ("__branch", "id"),
            ("__branch",),
        ),
        (
            "SELECT day, id FROM orders UNION ALL SELECT id, day FROM returns",
            ("__branch", "__key_0"),
            ("__branch", "__key_0"),
            ("__branch", "__key_0"),
        ),
        (
            "SELECT id, n FROM (SELECT id, day AS n FROM orders UNION ALL SELECT id, id FROM products) WHERE n > 1",
            ("__branch", "id"),
            ("__branch", "id"),
            ("__branch",),
        ),
    ],
)
def test_a_row_is_identified_by_the_lead_and_what_fans_out(text, unit, row, hidden):
    """I2: a unit is replaced as a whole, and its rows are told apart."""
    found = resolved(text).row_units
    assert (found.unit, found.row, found.hidden) == (unit, row, hidden)


def test_keys_of_other_types_get_columns_of_their_own():
    """A value is never converted: rows of a branch without such a key have null there."""
    tables = {
        "a": relation("a", "id! x", "id"),
        "b": relation("b", "id! part! x", "id part"),
        "c": relation("c", "id!", "id"),
    }
    tables["c"] = replace(tables["c"], columns=(RelationColumn("id", "STRING", nullable=False),))
    found = resolved("SELECT x FROM a UNION ALL SELECT x FROM b UNION ALL SELECT id FROM c", tables=tables)
    columns = [
        (column.output, column.type, [source and source.column for source in column.sources])
        for column in found.row_units.columns
    ]
    assert columns == [
        ("__key_0", "BIGINT", ["id", "id", None]),
        ("__key_1", "BIGINT", [None, "part", None]),
        ("__key_2", "STRING", [None, None, "id"]),
    ]


def test_groups_and_distinct_rows_are_units_of_their_own():
    """Their rows are no rows of a lead."""
    groups = resolved(
        "SELECT c.name, count(*) AS n FROM orders o JOIN customers c ON c.id = o.customer_id GROUP BY c.name"
    )
    distinct = resolved("SELECT id, day FROM orders UNION SELECT id, day FROM returns")
    assert groups.row_units is None
    assert distinct.row_units is None
    assert groups.group_columns() == ("name",)
    assert distinct.group_columns() == ("id", "day")
