"""What queries over joins have in common as jobs have them: parsed, and then resolved over the job's upstreams."""

from __future__ import annotations

from abc import abstractmethod
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Self

from airflow_backfill_provider.shapes.joined.query import JoinedQuery
from airflow_backfill_provider.shapes.joined.relations import Relation, RelationColumn
from airflow_backfill_provider.shapes.joined.resolved import ResolvedQuery, resolve
from airflow_backfill_provider.shapes.joined.spread import spreads
from airflow_backfill_provider.shapes.joined.texts import Names
from airflow_backfill_provider.shapes.joined.tree import JoinTree
from airflow_backfill_provider.shapes.joined.units import RowUnits
from airflow_backfill_provider.shapes.queries import ColumnOrigin, QueryLineage
from airflow_backfill_provider.shapes.several import QueryOverSeveral, QueryTable, Tables


class QueryOverBranches(QueryOverSeveral):
    """A query over branches, each a lead that may be joined with dimensions."""

    parsed: JoinedQuery
    """Its parts."""

    found: ResolvedQuery | None
    """The query over its upstreams; ``None`` before it is resolved."""

    @property
    def resolution(self) -> ResolvedQuery:
        """
        The query over its upstreams.

        :raises TypeError: if it is not resolved.
        """
        if self.found is None:
            raise TypeError("the query is not resolved over its upstreams")
        return self.found

    @property
    def row_columns(self) -> RowUnits:
        """
        The view's columns that identify its rows.

        :raises TypeError: if the query groups rows, which then cannot be told apart.
        """
        units = self.resolution.row_units
        if units is None:
            raise TypeError("the rows of a query that groups cannot be told apart")
        return units

    @property
    def has_steps(self) -> bool:
        """Whether subqueries may rename columns."""
        return bool(self.parsed.rows.levels) or any(
            source.steps for join in self.parsed.rows.joins for source in join.all_sources
        )

    @property
    def keyed(self) -> frozenset[str]:
        """The upstreams whose rows are looked up by their key, or told apart by it in a fan-out."""
        nodes = (node for tree in self.resolution.trees for node in tree.nodes[1:])
        return frozenset(node.relation for node in nodes if not node.how.is_filter)

    def affected_by(self, rows: Mapping[str, int]) -> Mapping[str, float]:
        """Return how many rows of leads a changed row of an upstream affects, in all branches and roles together."""
        found: defaultdict[str, float] = defaultdict(float)
        for tree in self.resolution.trees:
            found[tree.lead.relation] += 1
            for name, spread in spreads(tree, rows, lambda _upstream, _columns: None).items():
                found[name] += spread.mean
        return found

    def used_columns(self) -> Mapping[str, Sequence[str]]:
        """Return the columns of each upstream that an epoch reads."""
        return self.resolution.columns

    @property
    def selected_lineage(self) -> QueryLineage:
        """The origins of the columns that the query selects."""
        found = self.resolution.lineage
        columns = {name: ColumnOrigin(named(one.inputs), one.unchanged) for name, one in found.columns.items()}
        return QueryLineage(columns, named(found.filtered_by))


class QueryOverJoin(QueryOverBranches):
    """A query over a lead that is joined with dimensions."""

    @abstractmethod
    def over(self, found: ResolvedQuery) -> Self:
        """Return the query resolved over its upstreams."""

    @property
    def relations(self) -> tuple[str, ...]:
        """The names of the upstreams that it reads; the one that leads is the first."""
        return self.parsed.relations if self.found is None else _led(self.found)

    def resolved(self, tables: Tables) -> Self:
        """Return the query resolved over its tables; the first of these leads."""
        relations = [relation_of(name, table) for name, table in tables.items()]
        found = resolve(self.parsed, relations)
        if (lead := relations[0].name) != _tree(found).lead.relation:
            found = resolve(self.parsed, relations, lead)
        return self.over(found)

    @property
    def tree(self) -> JoinTree:
        """The tree of its joins."""
        return _tree(self.resolution)

    @property
    def read_whole(self) -> tuple[str, ...]:
        """The upstreams that a role reads that does not lead."""
        others = {node.relation for node in self.tree.nodes[1:]}
        return tuple(name for name in self.relations if name in others)

    def images(self) -> Mapping[str, Sequence[str]]:
        """Return the columns to join by of the upstreams that are read whole."""
        (plan,) = self.resolution.affected
        return {name: columns for name, columns in plan.image_columns.items() if name in self.read_whole}


def named(inputs: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """Return columns of upstreams by their names and those of the upstreams."""
    return tuple(f"{relation}.{column}" for relation, column in inputs)


def reading(lead: str, others: Mapping[str, str]) -> Names:
    """
    Return the relation to read at each place of a query.

    :param lead: the relation to read where the lead's rows stand.
    :param others: those to read in all other places, by the names of the upstreams.
    """
    return lambda place: lead if place.leads else others[place.relation]


def _tree(found: ResolvedQuery) -> JoinTree:
    return found.trees[0]


def _led(found: ResolvedQuery) -> tuple[str, ...]:
    lead = _tree(found).lead.relation
    return (lead, *(relation.name for relation in found.relations if relation.name != lead))


def relation_of(name: str, table: QueryTable) -> Relation:
    """Return an upstream of a job as a relation of its query."""
    columns = (
        RelationColumn(column, kind, nullable=column not in table.required) for column, kind in table.types.items()
    )
    return Relation(name, tuple(columns), table.key)
