"""Queries over several upstreams that are played: every kind of join, several dimensions, and unions."""

from __future__ import annotations

from typing import Literal

from tests.model.joins_queries import Branch, Found, Join, JoinQuery
from tests.model.joins_tables import Record

Outer = Literal["inner", "left"]


def _label(found: Found, role: str) -> str | None:
    record = found[role]
    return None if record is None else record.label


def _second(found: Found, role: str) -> int | None:
    record = found[role]
    return None if record is None else record.second or None


def _number(found: Found, role: str) -> int | None:
    record = found[role]
    return None if record is None else record.number


def _is_named(found: Found, record: Record) -> bool:
    return record.label is not None


def _costs_less(found: Found, record: Record) -> bool:
    """``orders.number > customers.number``; null is not greater."""
    number = _number(found, "orders") if found else None
    return number is not None and record.number is not None and number > record.number


def _customers(how: Literal["inner", "left", "semi", "anti"], role: str = "customers", refers: str = "first") -> Join:
    return Join(table="customers", role=role, how=how, on=(("orders", refers, "key"),))


def _of_orders(name: str, *joins: Join, unit: str = "orders", amount: str = "orders") -> JoinQuery:
    """Return a query of orders. It groups by a label of one role, and aggregates a number of another."""
    branch = Branch(
        lead="orders",
        joins=joins,
        unit=lambda found: (_label(found, unit), _second(found, "orders")),
        amount=lambda found: _number(found, amount),
    )
    return JoinQuery(name=name, branches=(branch,))


def two(how: Outer) -> JoinQuery:
    """Two lookups: a customer and a product of an order."""
    products = Join(table="products", how=how, on=(("orders", "second", "key"),))
    return _of_orders(f"two, {how}", _customers(how), products, unit="customers", amount="products")


def chain(how: Outer) -> JoinQuery:
    """A lookup on a lookup: the country of an order's customer."""
    countries = Join(table="countries", how=how, on=(("customers", "first", "key"),))
    return _of_orders(f"chain, {how}", _customers(how), countries, unit="countries")


def fan(how: Outer) -> JoinQuery:
    """A fan-out, and a lookup below it: the lines of an order, and their products."""
    lines = Join(table="lines", how=how, on=(("orders", "key", "first"),))
    products = Join(table="products", how=how, on=(("lines", "second", "key"),))
    return _of_orders(f"fan, {how}", lines, products, unit="products", amount="lines")


TWO, TWO_INNER = two("left"), two("inner")
CHAIN, CHAIN_INNER = chain("left"), chain("inner")
FAN, FAN_INNER = fan("left"), fan("inner")
TWO_FANS = _of_orders(
    "two fans",
    Join(table="lines", how="left", on=(("orders", "key", "first"),)),
    Join(table="parcels", how="left", on=(("orders", "key", "first"),)),
    unit="parcels",
    amount="lines",
)
"""All pairs of an order's lines and its parcels."""
FAN_BELOW = _of_orders(
    "fan below",
    _customers("left"),
    Join(table="parcels", how="left", on=(("customers", "key", "first"),)),
    unit="parcels",
    amount="parcels",
)
"""A fan-out below a lookup: the parcels of an order's customer."""
CODE = _of_orders("code", Join(table="customers", how="left", on=(("orders", "code", "code"),)), unit="customers")
"""A column that is unique and not the key, so it is a fan-out. Codes move from row to row."""
TWO_COLUMNS = _of_orders(
    "two columns",
    Join(table="customers", how="left", on=(("orders", "first", "key"), ("orders", "code", "code"))),
    unit="customers",
)
"""A lookup by the key and another column, each of which may be null."""
TWO_PARENTS = _of_orders(
    "two parents",
    _customers("left"),
    Join(table="products", how="inner", on=(("orders", "second", "key"),)),
    Join(table="countries", how="left", on=(("customers", "first", "key"), ("products", "second", "key"))),
    unit="countries",
)
"""A dimension that hangs on two others."""
CONDITION = _of_orders(
    "condition",
    Join(table="customers", how="left", on=(("orders", "first", "key"),), also=_costs_less),
    unit="customers",
)
ROLES = _of_orders("roles", _customers("left", "buyer"), _customers("inner", "payer", "second"), unit="buyer")
"""One table in two roles."""
STAFF = JoinQuery(
    name="staff",
    branches=(
        Branch(
            lead="staff",
            joins=(
                Join(table="staff", role="manager", how="left", on=(("staff", "first", "key"),)),
                Join(table="staff", role="head", how="left", on=(("manager", "first", "key"),)),
            ),
            unit=lambda found: (_label(found, "head"), None),
            amount=lambda found: _number(found, "manager"),
        ),
    ),
)
"""A table joined with itself, and once more."""
SEMI = _of_orders(
    "semi",
    Join(
        table="customers",
        how="semi",
        on=(("orders", "first", "key"),),
        inside=(Join(table="countries", how="inner", on=(("customers", "first", "key"),), also=_is_named),),
    ),
    Join(table="lines", how="semi", on=(("orders", "key", "first"),)),
)
"""Orders of customers with a country that has a name, and with a line: EXISTS twice, once over a join."""
ANTI = _of_orders(
    "anti",
    _customers("left"),
    Join(table="countries", how="anti", on=(("customers", "first", "key"),), also=_is_named),
    Join(table="lines", how="anti", on=(("orders", "key", "first"), ("customers", "second", "second"))),
    unit="customers",
)
"""NOT EXISTS twice, also by columns of a dimension."""
SEMI_AND_ANTI = _of_orders(
    "semi and anti",
    _customers("semi"),
    Join(table="parcels", how="anti", on=(("orders", "key", "first"),)),
)
FAN_AND_SEMI = _of_orders(
    "fan and semi",
    Join(table="lines", how="inner", on=(("orders", "key", "first"),)),
    Join(table="products", how="semi", on=(("lines", "second", "key"),)),
    unit="lines",
    amount="lines",
)
"""EXISTS by a column of a fan-out: it keeps some of an order's lines."""
NO_LARGER = _of_orders(
    "no larger",
    Join(
        table="orders",
        role="other",
        how="anti",
        on=(("orders", "first", "first"),),
        also=lambda found, other: (_number(found, "orders") or 0) < (other.number or 0),
    ),
)
"""The largest orders of each customer: NOT EXISTS over the lead itself."""
NOT_IN = _of_orders("not in", Join(table="parcels", how="not in", on=(("orders", "key", "key"),)))
"""NOT IN over keys, which are not null."""
NOT_IN_NULLABLE = _of_orders(
    "not in, nullable", Join(table="parcels", how="not in", on=(("orders", "first", "first"),))
)
"""Refused: one null empties the result, whatever the row's own value."""
NOT_IN_NULLABLE_LEAD = _of_orders(
    "not in, nullable lead", Join(table="parcels", how="not in", on=(("orders", "first", "key"),))
)
"""Refused: a lead with a null passes as long as there are no rows at all."""

_ALL_ORDERS = CHAIN.branches[0]
_ARCHIVE = Branch(
    lead="archive",
    joins=(Join(table="customers", how="inner", on=(("archive", "first", "key"),)),),
    unit=lambda found: (_label(found, "customers"), _second(found, "archive")),
    amount=lambda found: _number(found, "archive"),
)
UNION = JoinQuery(name="union", branches=(_ALL_ORDERS, _ARCHIVE))
"""Two leads with the same keys, each with joins of its own; one dimension is in both branches."""
SAME_TABLE = JoinQuery(
    name="same table",
    branches=(
        Branch(
            lead="orders",
            where=lambda found: _label(found, "orders") in {"a", "b"},
            unit=lambda found: (_label(found, "orders"), _second(found, "orders")),
            amount=lambda found: _number(found, "orders"),
        ),
        TWO_INNER.branches[0],
    ),
)
"""One table in two branches; a row may be in both, in one or in none of them."""

ALL = (
    *(TWO, TWO_INNER, CHAIN, CHAIN_INNER, FAN, FAN_INNER, TWO_FANS, FAN_BELOW, CODE, TWO_COLUMNS, TWO_PARENTS),
    *(CONDITION, ROLES, STAFF, SEMI, ANTI, SEMI_AND_ANTI, FAN_AND_SEMI, NO_LARGER, NOT_IN, UNION, SAME_TABLE),
)
