"""The units of each row of a join's lead, as a query of the user's own text over all tables of the join."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from airflow_backfill_provider.core.scan.keys import KeyOrder


class JoinedUnitQuery(Protocol):
    """A resolved query that says what the units of joined rows are."""

    @property
    def plan_nodes(self) -> Collection[str]:
        """The names of the nodes that Spark's plan of the query may have."""
        ...

    @property
    def has_steps(self) -> bool:
        """Whether subqueries may rename columns."""
        ...

    @property
    def read_whole(self) -> tuple[str, ...]:
        """The upstreams that are read whole."""
        ...

    def render_units(self, lead: str, others: Mapping[str, str], names: Sequence[str], *, carried: str = "") -> str:
        """Return the SQL of the units over relations."""
        ...


@dataclass(frozen=True, slots=True)
class JoinedRowUnits:
    """
    The query of the units of rows, as the engine runs it.

    :param query: the job's resolved query.
    :param text: its text, without comments; two with the same text and names are the same.
    :param order: the unit columns and their types; empty if no position depends on them.
    :param carried: the name of the column of the lead that is passed on beside the units.
    :param others: the names of the upstreams that are read whole.
    :param upstream_names: the names of the used columns of all upstreams, and of all fields inside them.
    :param repeats: whether a row may belong to several units, or be there several times in one.
    """

    query: JoinedUnitQuery = field(compare=False, repr=False)
    text: str
    order: KeyOrder
    carried: str
    others: tuple[str, ...]
    upstream_names: frozenset[str]
    repeats: bool

    @property
    def plan_nodes(self) -> Collection[str]:
        """The names of the nodes that Spark's plan of the query may have."""
        return self.query.plan_nodes

    @property
    def has_steps(self) -> bool:
        """Whether subqueries may rename columns."""
        return self.query.has_steps

    def over(self, relation: str, others: Mapping[str, str] = MappingProxyType({})) -> str:
        """Return the SQL of the units over relations with the used columns."""
        return self.query.render_units(relation, others, self.order.names, carried=self.carried)
