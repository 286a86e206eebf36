"""The unit of each row of the upstream, as a query of the user's own text."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Protocol

from airflow_backfill_provider.core.scan.keys import KeyOrder
from airflow_backfill_provider.shapes.queries import OF_ROWS


class UnitQuery(Protocol):
    """A parsed query that says what the units of rows are."""

    @property
    def has_steps(self) -> bool:
        """Whether the query may rename columns in subqueries."""
        ...

    def render_units(
        self, relation: str, names: Sequence[str], upstream_names: Collection[str], *, carried: str = ""
    ) -> str:
        """Return the SQL of the units over a relation."""
        ...


@dataclass(frozen=True, slots=True)
class GroupRowUnits:
    """
    The query of the units of rows, as the engine runs it.

    :param query: the job's query; two with the same text are the same.
    :param text: its text, without comments.
    :param names: the names of the unit columns.
    :param upstream_names: the names of the used columns, and of all fields inside them.
    :param order: the unit columns and their types; empty if no position depends on them.
    :param carried: the name of a column that is passed on beside the units; empty for none.
    :param others: the names of further upstreams: none.
    :param repeats: whether a row may belong to several units: never, without a join.
    """

    query: UnitQuery = field(compare=False, repr=False)
    text: str
    names: tuple[str, ...]
    upstream_names: frozenset[str]
    order: KeyOrder = field(default_factory=lambda: KeyOrder(()))
    carried: str = ""
    plan_nodes: Collection[str] = OF_ROWS
    others: tuple[str, ...] = ()
    repeats: bool = False

    @property
    def has_steps(self) -> bool:
        """Whether the query may rename columns in subqueries."""
        return self.query.has_steps

    def over(self, relation: str, others: Mapping[str, str] = MappingProxyType({})) -> str:
        """Return the SQL of the units over a relation with the used columns; there are no others."""
        del others
        return self.query.render_units(relation, self.names, self.upstream_names, carried=self.carried)
