"""The tables of a shop, which the tests of joins and unions query."""

from __future__ import annotations

from airflow_backfill_provider.shapes.joined.query import check_joined_query
from airflow_backfill_provider.shapes.joined.relations import Relation, RelationColumn, by_name
from airflow_backfill_provider.shapes.joined.resolved import ResolvedQuery, resolve
from airflow_backfill_provider.shapes.joined.texts import Reading


def relation(name: str, columns: str, key: str) -> Relation:
    """
    Return a table.

    :param columns: the names of its columns; an exclamation mark after a name says that it is never null.
    :param key: the columns of its key.
    """
    found = [RelationColumn(column.rstrip("!"), "BIGINT", not column.endswith("!")) for column in columns.split()]
    return Relation(name, tuple(found), tuple(key.split()))


SHOP = by_name(
    [
        relation("orders", "id! customer_id parent_id day amount", "id"),
        relation("customers", "id! name country code vip", "id"),
        relation("countries", "code! name", "code"),
        relation("lines", "order_id! number! product price", "order_id number"),
        relation("products", "id! name kind", "id"),
        relation("returns", "id! order_id day", "id"),
    ]
)


def resolved(text: str, lead: str = "", *, tables=SHOP) -> ResolvedQuery:
    """Return a query over those of the tables that it reads."""
    query = check_joined_query(text)
    read = {name.lower() for name in query.relations}
    return resolve(query, [table for name, table in tables.items() if name in read], lead)


def placed(reading: Reading) -> str:
    """Return the name of the relation that the tests put at a place."""
    return f"{'lead' if reading.leads else 'all'}_{reading.role}"


def tree_text(text: str, lead: str = "", *, tables=SHOP, branch: int = 0) -> str:
    """Return the tree of a query in one line: how each role hangs on another one."""
    return "; ".join(map(_node_text, resolved(text, lead, tables=tables).trees[branch].nodes))


def _node_text(node):
    if not node.parent:
        return node.role
    pairs = " and ".join(f"{pair.parent} {'<=>' if pair.null_safe else '='} {pair.column}" for pair in node.pairs)
    what = "one" if node.is_lookup else "many"
    return f"{node.parent} {node.how} {node.role} ({what}) on {pairs}" + (" …" if node.has_conditions else "")
