"""A shape for tests that reads several upstreams: a lead, each row with the row of a dimension that it names."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from airflow_backfill_provider.core.epoch.settings import JobSettings
from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.scan.keys import KeyField, KeyOrder
from airflow_backfill_provider.shapes import KINDS
from airflow_backfill_provider.shapes.base import Shape, ViewWriter, WriterContext
from airflow_backfill_provider.shapes.queries import OF_SEVERAL_READINGS, Units
from airflow_backfill_provider.shapes.several import QueryOverSeveral, Tables
from airflow_backfill_provider.shapes.spread import Branch, MostRows, Spread

_LOOKUP = re.compile(
    r"SELECT l\.id, l\.(?P<reference>\w+), d\.(?P<value>\w+) FROM (?P<lead>\w+) AS l "
    r"LEFT JOIN (?P<dimension>\w+) AS d ON d\.(?P<key>\w+) = l\.(?P=reference)"
)

LOOKUP = "SELECT l.id, l.customer, d.name FROM orders AS l LEFT JOIN customers AS d ON d.id = l.customer"


def star(**changes: Any) -> dict[str, Any]:
    """Return the fields of a job over two tables."""
    fields = {
        "name": "named_orders",
        "upstreams": {
            "orders": {"path": "/lake/orders", "key": ["id"]},
            "customers": {"path": "/lake/customers", "key": ["id"]},
        },
        "materialized_view": "/lake/named_orders",
        "query": LOOKUP,
        "vnode_count": 4,
    }
    return {name: value for name, value in {**fields, **changes}.items() if value is not None}


@dataclass(frozen=True)
class LookupQuery(QueryOverSeveral):
    """A lead with the row of a dimension that each of its rows names."""

    plan_nodes: ClassVar = OF_SEVERAL_READINGS

    text: str
    lead: str
    dimension: str
    reference: str
    key: str
    value: str
    tables: Tables | None = None

    @property
    def relations(self) -> tuple[str, ...]:
        return self.lead, self.dimension

    def resolved(self, tables: Tables) -> Self:
        if self.value not in tables[self.dimension].types:
            raise InvalidJobError(f"query: {self.dimension} has no column {self.value}")
        return type(self)(self.text, self.lead, self.dimension, self.reference, self.key, self.value, dict(tables))

    def used_columns(self) -> Mapping[str, Sequence[str]]:
        return {self.lead: ("id", self.reference), self.dimension: (self.key, self.value)}

    def images(self) -> Mapping[str, Sequence[str]]:
        return {self.dimension: (self.key,)}

    def branches(self, rows: Mapping[str, int], most: MostRows) -> Sequence[Branch]:
        spread = Spread(mean=rows[self.lead] / max(rows[self.dimension], 1), most=most(self.lead, (self.reference,)))
        return [Branch(lead=self.lead, spreads={self.dimension: spread})]

    def text_over(self, lead: str, others: Mapping[str, str]) -> str:
        text = self.text.replace(f"FROM {self.lead} AS", f"FROM {lead} AS")
        return text.replace(f"JOIN {self.dimension} AS", f"JOIN {others[self.dimension]} AS")

    def units(self, settings: JobSettings, *, by_key: bool) -> Units:
        order = KeyOrder((KeyField(name="id", type=settings.types["id"]),))
        return Units(order=order, outputs=("id",), hashed=("id",), hashed_outputs=("id",))

    def holds_distribution_key(self, settings: JobSettings) -> bool:
        return True


class Lookup(Shape):
    """A row of the view for a row of the lead."""

    name: ClassVar[str] = "lookup"
    takes_upstreams: ClassVar[bool] = True

    def query(self, text: str) -> LookupQuery:
        found = _LOOKUP.fullmatch(text)
        if found is None:
            raise InvalidJobError("query: it looks nothing up")
        return LookupQuery(text, *found.group("lead", "dimension", "reference", "key", "value"))

    def writer(self, context: WriterContext) -> ViewWriter:
        from tests.lookup_writer import LookupWriter

        return LookupWriter(context, self.query(context.job.query))


@contextmanager
def shape_of_several(*, registered: bool = True) -> Iterator[None]:
    """Let jobs with ``upstreams`` have the shape, or no shape at all."""
    before = [shape for shape in KINDS if shape.takes_upstreams]
    for shape in before:
        KINDS.forget(shape.name)
    if registered:
        KINDS.register(Lookup())
    try:
        yield
    finally:
        KINDS.forget(Lookup.name)
        for shape in before:
            KINDS.register(shape)
